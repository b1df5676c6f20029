-- link.lua: kernels that move bytes from one layout into another: plans, and their source.
--
-- Plans are as plan.lua's, of family "link": words are the numbers in the names of the entries (gen.h), way.pack and
-- way.unpack the same. Of a pair: sides.from and sides.to, alike (one form).
local index = require "index"
local place = require "place"
local plan = require "plan"
local shape = require "shape"
local template = require "template"

local link = {}

local WORD_MAX = 16
local THREADS = 256
local LEVELS = 5            -- GEN_LINK_LEVELS
local FLAGS = { 8, 256 }        -- GEN_FLAGS_SOME, _MOST
local EXCHANGES = { 64, 466 }   -- GEN_EXCHANGE_SOME, _MOST
local JOBS = { 39, 26, 8, 0 }   -- GEN_LINK_MOST; fewer, since a launch copies its whole argument

-- Loads that a thread has in flight: reading another device's memory takes 2 us. Fewer where a list is looked into first:
-- one block's look goes on beside another one's loads (8.5 MB of 32,768 blocks on two H200s: 42.4 us by 2, 43.7 by 4, 45.8
-- by 8).
local EACH, EACH_LISTED = 4, 2
local LONG, LONGER = 16, 40   -- nodes whose code is written out for fewer words at a time

local function make(target, words, word, each, index_bits, why)
  return plan.fixed(target, "link", words, { word = word, each = each, threads = THREADS }, index_bits, { why })
end

-- Many chains of strides at once, told by numbers.
function link.list(target)
  local p = make(target, JOBS, WORD_MAX, EACH, 32, ("lists of links; up to %d in the argument"):format(JOBS[1]))
  p.marked = { each = EACH, threads = THREADS, pack = WORD_MAX, unpack = WORD_MAX, pace = 0 }   -- stridec_link_marked
  return p
end

local function side_of(tree)
  local s = shape.of(tree)
  return { tree = tree, shape = s, word = s and shape.word(s, WORD_MAX) or tree.word,
    nodes = s and #s.dims + 1 or plan.count_nodes(tree) }
end

-- From one form into another. alike: they are the same one.
function link.pair(from, to, alike, target)
  local sides = { from = side_of(from), to = side_of(to) }
  local word, nodes = math.min(sides.from.word, sides.to.word), sides.from.nodes + sides.to.nodes
  local words = { word }
  if word > 8 and plan.is_long(from) and plan.is_long(to) then words[2] = 8 end   -- addresses of doubles
  if word > 4 then words[#words + 1] = 4 end
  if word > 1 then words[#words + 1] = 1 end
  local most = math.max(from.numbers, to.numbers) > 0 and EACH_LISTED or EACH
  local each = nodes <= LONG and most or nodes <= LONGER and most // 2 or 1
  local small = from.bytes < 2 ^ 31 and to.bytes < 2 ^ 31
  local p = make(target, words, word, each, small and 32 or 64, ("words of %d B, %d a thread"):format(word, each))
  p.sides, p.alike, p.numbers = sides, alike, math.max(from.numbers, to.numbers)
  return p
end

local function body(side, width, bits)
  return side.shape and index.body(side.shape, width, bits) or place.body(side.tree, width, bits)
end

-- What an entry tells apart, each with its code.
local function cases(p, widest)
  local list = {}
  for _, wrap in ipairs(widest and { true, false } or { true }) do
    for _, alike in ipairs(p.alike and { true, false } or { false }) do
      local tests = {}
      if widest and wrap then tests[#tests + 1] = "a.from.wrap" end
      if alike then tests[#tests + 1] = "a.from.packed" end
      local test = #tests > 0 and ("if (%s) "):format(table.concat(tests, " && ")) or ""
      list[#list + 1] = { test = (#list > 0 and "else " or "") .. test, wrap = wrap, alike = alike }
    end
  end
  return list
end

local function entries(p)
  local list = {}
  for i, width in ipairs(p.words) do
    local widest = i == 1
    list[i] = { width = width, each = widest and p.way.pack.each or p.way.pack.narrow_each,
      from = body(p.sides.from, width, p.index_bits), to = body(p.sides.to, width, p.index_bits),
      cases = cases(p, widest) }
  end
  return list
end

function link.source(p, title, read)
  return template.render(p.sides and "templates/link_pair.cu" or "templates/link_list.cu", read, {
    plan = p,
    title = title,
    entries = p.sides and entries(p),
    levels = LEVELS,
    streams = not p.sides and { exchanges = EXCHANGES, flags = FLAGS },
    in_place = true,
    loads = {},
    exchanges = false,
    numbers = p.numbers or 0,
    index_type = p.index_bits == 32 and "unsigned int" or "unsigned long long",
  })
end

return link
