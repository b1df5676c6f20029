-- emit.lua: fills the family's template from a plan.
local index = require "index"
local place = require "place"
local template = require "template"

local emit = {}

local TEMPLATES = {
  contiguous = "templates/strided.cu",
  strided = "templates/strided.cu",
  struct = "templates/irregular.cu",
  indexed = "templates/irregular.cu",
  mixed = "templates/irregular.cu",
  generic = "templates/generic.cu",
}

-- The entry points' parts, one for each word width.
local function entries(p)
  local list = {}
  for i, width in ipairs(p.words) do
    local body = p.shape and index.body(p.shape, width, p.index_bits)
      or p.tree and place.body(p.tree, width, p.index_bits)
    list[i] = { width = width, body = body }
  end
  return list
end

-- CUDA C for a plan of plan.lua. read(name) returns the text of a file of templates/.
function emit.source(p, title, read)
  return template.render(TEMPLATES[p.family], read, {
    plan = p,
    title = title,
    entries = entries(p),
    record = p.record,
    numbers = p.tree and p.tree.numbers or 0,
    index_type = p.index_bits == 32 and "unsigned int" or "unsigned long long",
  })
end

return emit
