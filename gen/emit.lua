-- emit.lua: fills the family's template from a plan.
local index = require "index"
local knobs = require "knobs"
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

local TILE_ROOM = knobs.TILE_EDGE * (knobs.TILE_EDGE + 1)   -- words: templates/tile.cuh

-- What moves a direction's words of this width: the name of a file of templates/ and of the function in it, less
-- "stridec_", the words that a thread moves at a time, and those that a block needs of shared memory. Widths that are
-- seldom taken get less code: more rounds do the same.
local function mover(p, way, width)
  if way.move == "shift" and width == way.word then return { name = "shift", each = way.each } end
  if p.gathers then return { name = "gather", each = math.min(way.each, knobs.GROUP // width) } end
  if width < knobs.NARROWEST and width < way.word or width > way.word then return { name = "move", each = 1 } end
  if way.move == "tile" then return { name = "tile", each = way.each, room = TILE_ROOM } end
  local each = width == way.word and way.each or way.narrow_each
  if way.move == "bulk" then return { name = "bulk", each = each, room = way.threads * each } end
  return { name = "move", each = each }
end

-- The entry points' parts, one for each word width.
local function entries(p)
  local list = {}
  for i, width in ipairs(p.words) do
    local entry = { width = width, mover = {} }
    local function body(runs)
      return p.shape and index.body(p.shape, width, p.index_bits, runs)
        or p.tree and place.body(p.tree, width, p.index_bits, runs)
    end
    entry.body = body(false)
    for name, way in pairs(p.way) do
      entry.mover[name] = mover(p, way, width)
      if entry.mover[name].name == "tile" then entry.columns = p.row.bytes // width end
      if entry.mover[name].name == "shift" then entry.run = body(true) end
    end
    list[i] = entry
  end
  return list
end

-- Names of the movers that entries use, and a set of them; each may call the first.
local function movers(list)
  local names, seen = { "move" }, { move = true }
  for _, entry in ipairs(list) do
    for _, way in ipairs { "pack", "unpack" } do
      local name = entry.mover[way].name
      if not seen[name] then names[#names + 1] = name end
      seen[name] = true
    end
  end
  return names, seen
end

-- The kinds of load, but for plain ones, that a plan uses.
local function loads(p)
  local list = {}
  for _, way in ipairs { p.way.pack, p.way.unpack } do
    if way.load ~= "plain" and way.load ~= list[1] then list[#list + 1] = way.load end
  end
  return list
end

-- The entries that move in chunks: each direction's, of its own width.
local function marked(p)
  local list = {}
  for _, way in ipairs(p.marked and { "pack", "unpack" } or {}) do
    list[#list + 1] = { way = way, width = p.marked[way], mover = p.gathers and "gather" or "move", each = p.marked.each }
  end
  return list
end

-- CUDA C, or HIP, for a plan of plan.lua. read(name) returns the text of a file of templates/.
function emit.source(p, title, read)
  local list = entries(p)
  local names, used = movers(list)
  return template.render(TEMPLATES[p.family], read, {
    plan = p,
    title = title,
    entries = list,
    movers = names,
    funnels = p.record or used.shift,
    bulk = used.bulk,
    edge = knobs.TILE_EDGE,
    marked = marked(p),
    loads = loads(p),
    exchanges = p.way.pack.store == "exch" or p.way.unpack.store == "exch",
    record = p.record,
    numbers = p.tree and p.tree.numbers or 0,
    index_type = p.index_bits == 32 and "unsigned int" or "unsigned long long",
  })
end

return emit
