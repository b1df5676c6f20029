-- knobs.lua: what can be set of the kernels of one direction, and to what.
--
-- A setting is a table { word =, each =, threads =, load =, store =, move =, order = }; its text is "word=8 each=1
-- ...". A wish is one that may lack some. What a setting means is settled for a tree: c = { way = "pack" or
-- "unpack", kind = "strided", "irregular" or "narrow" (moved in groups, gather.cuh), widest = the widest word, row
-- = shape.transposed, long = blocks of LONG bytes or more on average, gpu (gpus.lua) }. A new one also wants words in
-- why.lua, a place in gen_tables.c (read_way) and code in templates/.
local gpus = require "gpus"

local knobs = {}

knobs.NAMES = { "word", "each", "threads", "load", "store", "move", "order" }

-- The first is what a wish that says nothing gets.
local ALLOWED = {
  word = { 16, 8, 4, 2, 1 },                   -- bytes, at most
  each = { 1, 2, 4, 8, 16, 32, 64 },           -- words a thread moves at a time
  threads = { 256, 128, 512, 1024 },           -- of a block
  load = { "plain", "nc", "first", "last" },   -- nc: past the L1 cache; first, last: out of L2
  store = { "plain", "exch" },                 -- exch: words of 4 and 8 B by atomic exchange
  move = { "direct", "bulk", "tile", "shift" },   -- bulk: bulk.cuh, packing only; tile: tile.cuh, transposed layouts
                                               -- only; shift: shift.cuh, words below 16 B of long blocks
  order = { "near", "far" },                   -- a thread's words: a block's threads apart, or the whole grid's
}

local TILE_EDGE, GROUP, ROOM = 32, 16, 32768   -- words of a tile's edge; bytes of a group, of a block's shared memory
local NARROWEST = 4                            -- bytes of a word that goes by tile or bulk
knobs.NARROWEST, knobs.TILE_EDGE, knobs.GROUP = NARROWEST, TILE_EDGE, GROUP
knobs.LONG = 64                                -- FORM_LONG

local function check(name, value)
  local list = ALLOWED[name]
  if not list then
    error(("there is no knob %q; there are %s"):format(name, table.concat(knobs.NAMES, ", ")), 0)
  end
  for _, allowed in ipairs(list) do
    if tostring(allowed) == value then return allowed end
  end
  error(("%s=%s: it is one of %s"):format(name, value, table.concat(list, ", ")), 0)
end

-- A wish from its text; nil stands for none.
function knobs.read(text)
  local wish = {}
  for item in (text or ""):gmatch("%S+") do
    local name, value = item:match("^(%l+)=(%w+)$")
    if not name then error(("%q is not a knob's name, =, and its value"):format(item), 0) end
    wish[name] = check(name, value)
  end
  return wish
end

function knobs.text(setting)
  local list = {}
  for i, name in ipairs(knobs.NAMES) do list[i] = name .. "=" .. setting[name] end
  return table.concat(list, " ")
end

-- One wish over another.
function knobs.over(wish, base)
  local s = {}
  for _, name in ipairs(knobs.NAMES) do s[name] = wish[name] or base[name] end
  return s
end

local settle = {}   -- by move

function settle.direct(s)
  if s.each == 1 then s.order = "near" end
end

-- A block moves whole tiles, in as many words a thread as that takes.
function settle.tile(s)
  s.each, s.order = TILE_EDGE * TILE_EDGE // s.threads, "near"
end

-- The packed side is stored by the copy, from shared memory, which is not large.
function settle.bulk(s)
  s.store, s.order = "plain", "near"
  while s.threads * s.each * s.word > ROOM do s.each = s.each // 2 end
end

-- Whole groups, of all words that lie in one.
function settle.shift(s)
  s.each, s.store, s.order = math.max(s.each, GROUP // s.word), "plain", "near"
end

-- Whether a way of moving can serve c by words of this width.
local suits = {
  direct = function() return true end,
  tile = function(c, word) return c.row and word >= NARROWEST end,
  bulk = function(c, word) return c.way == "pack" and word >= NARROWEST end,
  shift = function(c, word) return c.long and word == c.widest and word < GROUP end,
}

-- The setting that a wish comes to: two wishes that make the same kernels come to one setting.
function knobs.settle(wish, c)
  local s = {}
  for _, name in ipairs(knobs.NAMES) do s[name] = wish[name] or ALLOWED[name][1] end
  if c.kind == "narrow" and not (s.move == "shift" and c.long) then
    local narrow = {}
    for _, name in ipairs(knobs.NAMES) do narrow[name] = ALLOWED[name][1] end
    narrow.word, narrow.each, narrow.threads = c.widest, GROUP // c.widest, s.threads
    return narrow
  end
  s.word = math.min(s.word, c.widest)
  if s.word ~= 4 and s.word ~= 8 then s.store = "plain" end
  if s.word < NARROWEST then s.load = "plain" end
  if not suits[s.move](c, s.word) then s.move = "direct" end
  settle[s.move](s)
  return s
end

-- What is worth trying, most telling first: each row stands for all combinations of its values. Words that a tree
-- does not allow come to narrower ones.
local WORTH = {
  { move = { "shift" }, each = { 2, 4, 8, 16, 32, 64 }, threads = { 256, 128, 512 } },
  { move = { "tile" }, threads = { 1024, 512, 256 }, word = { 16, 8 } },
  { word = { 16, 8 }, each = { 1, 2, 4 }, threads = { 256, 1024, 512 } },
  { word = { 16, 8 }, load = { "last", "nc", "first" }, threads = { 256, 512 }, each = { 1, 4 }, way = "pack" },
  { word = { 16, 8 }, load = { "last", "nc" }, threads = { 256, 128 }, each = { 1, 2 }, way = "unpack" },
  { move = { "bulk" }, word = { 16, 8 }, threads = { 256, 512 }, each = { 1, 2 } },
  { store = { "exch" }, word = { 8, 4 }, threads = { 256, 1024 }, each = { 1, 2, 4 }, way = "unpack" },
  { order = { "far" }, word = { 16, 8 }, each = { 8, 4 }, threads = { 1024, 256 } },
  { word = { 16, 8, 4 }, each = { 1, 2 }, threads = { 128 } },
  { word = { 16 }, each = { 8 }, threads = { 256, 512 } },
}
local MOST = 60

-- Calls visit with each combination of a row's values, from knob number i on.
local function combine(row, wish, i, visit)
  local name = knobs.NAMES[i]
  if not name then return visit(wish) end
  if not row[name] then return combine(row, wish, i + 1, visit) end
  for _, value in ipairs(row[name]) do
    wish[name] = value
    combine(row, wish, i + 1, visit)
  end
end

-- Texts of settings worth trying for c, `first` before all; no two alike.
function knobs.list(c, first)
  local list, seen = {}, {}
  local function add(setting)
    local text = knobs.text(setting)
    if seen[text] or #list == MOST then return end
    seen[text] = true
    list[#list + 1] = text
  end
  add(first)
  for _, row in ipairs(WORTH) do
    if not row.way or row.way == c.way then
      combine(row, {}, 1, function(wish)
        if gpus.serves(c.gpu, wish) then add(knobs.settle(wish, c)) end
      end)
    end
  end
  return list
end

return knobs
