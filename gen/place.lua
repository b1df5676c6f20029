-- place.lua: the code that finds a packed word's place, for trees with parts or lists.
--
-- Walks the tree once and writes statements on two variables: `rest`, the words before this one in the node at
-- hand, and `offset`, bytes. Sizes are literals, but where they follow from the length of a list: those are numbers
-- of the launch (gen/form.h). A body of `runs` also sets `back` and `left`: the words of the dense block at hand before
-- this one, and those from it on.
local index = require "index"

local place = {}

local Writer = {}
Writer.__index = Writer

function Writer:add(text, ...)
  self.lines[#self.lines + 1] = ("    "):rep(self.level) .. (select("#", ...) > 0 and text:format(...) or text)
end

-- A braced block: its quotients are its own.
function Writer:block(head, body)
  self:add(head .. "{")
  self.level = self.level + 1
  body()
  self.level = self.level - 1
  self:add("}")
end

function Writer:literal(words) return ("%d%s"):format(words, self.bits == 32 and "u" or "ull") end

function Writer:shift_offset(bytes)
  if bytes ~= 0 then self:add("offset += %s;", index.literal(bytes)) end
end

-- The size of a node in words, as C text.
function Writer:size(node)
  if node.size_number then return ("(index)a.number[%d]"):format(node.size_number) end
  return self:literal(math.max(node.size // self.width, 1))
end

-- `rest` divided by the size of a node.
function Writer:quotient(node)
  if not node.size_number then return "rest / " .. self:size(node) end
  return ("stridec_divide(rest, a.number[%d], a.number[%d])"):format(node.size_number, node.size_number + 1)
end

-- Leaves in `rest` what lies within one copy of node, and calls body with the copy's name.
function Writer:copy(node, body)
  self:block("", function()
    self:add("const index copy = %s;", self:quotient(node))
    self:add("rest -= copy * %s;", self:size(node))
    body(self.bits == 32 and "(long long)(int)copy" or "(long long)copy")
  end)
end

-- The end of the walk, where `rest` still counts the words before the block, `start` of them.
function Writer:dense(node, start)
  if not self.runs then return end
  self:add("back = rest%s;", start > 0 and " - " .. self:literal(start) or "")
  self:add("left = %s - back;", self:size(node))
end

local walk   -- by kind, below

function Writer:node(node) walk[node.kind](self, node) end

-- A child, its own offset included.
function Writer:child(node)
  self:shift_offset(node.off)
  self:node(node)
end

-- Expressions of words before each part, as C text; runs of literals are summed.
local function starts_of(w, parts)
  local list, words, more = {}, 0, {}
  for i, part in ipairs(parts) do
    local terms = { w:literal(words) }
    for _, term in ipairs(more) do terms[#terms + 1] = term end
    list[i] = { text = "(" .. table.concat(terms, " + ") .. ")", words = #more == 0 and words or nil }
    if part.size_number then more[#more + 1] = w:size(part) else words = words + part.size // w.width end
  end
  return list
end

-- Parts first to last: halves, until one is left.
local function choose(w, parts, starts, first, last)
  if first < last then
    local middle = (first + last + 1) // 2
    w:block(("if (rest < %s) "):format(starts[middle].text), function() choose(w, parts, starts, first, middle - 1) end)
    w:block("else ", function() choose(w, parts, starts, middle, last) end)
    return
  end
  local part, start = parts[first], starts[first]
  if part.kind == "dense" and start.words then
    w:shift_offset(part.off - start.words * w.width)
    w:dense(part, start.words)
  else
    if start.words ~= 0 then w:add("rest -= %s;", start.text) end
    w:child(part)
  end
end

-- One of a few constants, as nested conditions.
local function select_offset(w, at, first, last)
  if first == last then return index.literal(at[first]) end
  local middle = (first + last + 1) // 2
  return ("(copy < %s ? %s : %s)"):format(w:literal(middle - 1), select_offset(w, at, first, middle - 1),
    select_offset(w, at, middle, last))
end

local SIGNED = { "signed char", [4] = "int", [8] = "long long" }
local UNSIGNED = { [2] = "unsigned short", [4] = "unsigned int" }

-- The type of a list's offsets (templates/lists.cuh).
local function offsets_type(node)
  if node.base == 0 then return ("stridec_plain<%s>"):format(SIGNED[node.entry]) end
  return ("stridec_based<%s, %s, %d, %d>"):format(SIGNED[node.base], UNSIGNED[node.entry], node.group, node.scale)
end

-- The type of the low bits of where blocks start, by their bytes.
local STARTS = {
  [2] = "stridec_plain<unsigned short>",
  [3] = "stridec_based<unsigned char, unsigned short, 0, 16>",
  [4] = "stridec_plain<unsigned int>",
}

walk = {
  dense = function(w, node) w:dense(node, 0) end,

  stride = function(w, node)
    w:copy(node.child, function(copy) w:add("offset += %s * %s;", copy, index.literal(node.step)) end)
    w:child(node.child)
  end,

  seq = function(w, node) choose(w, node.part, starts_of(w, node.part), 1, #node.part) end,

  index = function(w, node)
    w:copy(node.child, function() w:add("offset += %s;", select_offset(w, node.at, 1, #node.at)) end)
    w:child(node.child)
  end,

  table = function(w, node)
    w:copy(node.child, function()
      w:add("offset += (long long)stridec_list<%s>(a, %d)[copy] * %s;", offsets_type(node), node.number,
        index.literal(node.unit))
    end)
    w:child(node.child)
  end,

  blocks = function(w, node)
    local unit = w:literal(node.unit // w.width)
    if w.runs then w:add("unsigned int before, after;") end
    w:add("offset += stridec_block<%s, %s, %d>((rest) / %s, a, %d%s) * %s;", offsets_type(node), STARTS[node.start],
      8 * node.start, unit, node.number, w.runs and ", before, after" or "", index.literal(node.unit))
    if not w.runs then return end
    w:add("back = before * %s + rest %% %s;", unit, unit)
    w:add("left = after * %s - rest %% %s;", unit, unit)
    w:add("if (left > %s - rest) left = %s - rest;", w:size(node), w:size(node))
  end,
}

-- Lines of the C function body that maps `word_index`, counting words of `width` bytes in the packed stream, to an
-- offset in bytes, and for `runs` to what lies around it in the same block.
function place.body(tree, width, bits, runs)
  local w = setmetatable({ lines = {}, level = 0, width = width, bits = bits, runs = runs }, Writer)
  w:add("index rest = word_index;")
  w:add("long long offset = 0;")
  w:block("if (WRAP) ", function()
    w:copy(tree, function(copy) w:add("offset = %s * a.extent;", copy) end)
  end)
  w:node(tree)
  w:add("return offset + (long long)rest * %s;", index.literal(width))
  return w.lines
end

return place
