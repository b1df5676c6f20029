-- plan.lua: decides how a tree's kernels work.
--
-- A plan is a table: target, family, words (widths in bytes, widest first, the last 1), way.pack and way.unpack (settings
-- of knobs.lua, with `why`: the reason), index_bits, marked, why (lines for a person: why.lua); for the strided families
-- shape (see shape.lua), for the irregular ones tree; gathers where a thread's words are neighbours in the packed stream,
-- record where those make small records (record.lua).
local gpus = require "gpus"
local knobs = require "knobs"
local model = require "model"
local record = require "record"
local shape = require "shape"
local why = require "why"

local plan = {}

local WORD_MAX = 16
local DIRECTIONS = { "pack", "unpack" }

-- Words so narrow that the packed side is moved in groups of them; the code for a word's place, which is written out
-- for each word of a group, must be short.
local NARROW = 2
local GATHERED_NODES = 16

local function count_nodes(node)
  local n = 1
  if node.child then n = n + count_nodes(node.child) end
  for _, part in ipairs(node.part or {}) do n = n + count_nodes(part) end
  return n
end

-- Bytes of a dense block of a tree, on average; of a list LONG or 0.
local function average(node)
  if node.child then return average(node.child) end
  if node.kind == "blocks" then return node.long and knobs.LONG or 0 end
  if not node.part then return node.size end
  local blocks, bytes = 0, 0
  for _, part in ipairs(node.part) do
    local length = average(part)
    local size = part.size or length   -- one block, where the size is a number of the launch
    if length == 0 then return 0 end
    blocks, bytes = blocks + size / length, bytes + size
  end
  return blocks > 0 and bytes / blocks or 0
end

-- Returns true if a tree's blocks are long.
local function is_long(tree) return average(tree) >= knobs.LONG end

plan.count_nodes, plan.is_long = count_nodes, is_long   -- also link.lua's

-- What settings depend on, but for the direction: c of knobs.lua and model.lua.
local function context(p, tree)
  local s = p.shape
  local c = { gpu = p.gpu, word = s and shape.word(s, WORD_MAX) or tree.word, bytes = p.bytes, length = s and s.length }
  c.widest, c.words = c.word, c.bytes // c.word
  local row = s and shape.transposed(s)
  if row then c.row, c.rows, c.columns, c.step = row, row.rows, row.bytes // c.word, row.step end
  local short = (s and #s.dims + 1 or count_nodes(tree)) <= GATHERED_NODES
  c.long = is_long(tree)
  c.kind = c.word <= NARROW and (short or c.long) and "narrow" or s and "strided" or "irregular"
  return c
end

-- Narrower words than the widest serve addresses that this does not divide: of long blocks, 8 B by 4 loads a thread.
-- Rows of 384 B that begin at multiples of 8, 42 MB, H200: packed in 30 us, not 46 in words of 4 B by one load.
local NARROW_EACH, NARROW_WORD = 4, 8

-- The setting of one direction, and why.
local function choose(c, way, wished)
  c.way = way
  local chosen, reason = model.choose(c)
  local model_way = knobs.settle(chosen, c)
  local wish = knobs.read(wished)
  local setting = next(wish) and knobs.settle(knobs.over(wish, chosen), c) or model_way
  setting.narrow_each = c.long and NARROW_EACH or math.min(setting.each, 2)
  setting.why = knobs.text(setting) == knobs.text(model_way) and reason or "it was set so, not by the model"
  return setting
end

-- Every width that a direction begins with, and those that serve what these do not divide; each once, widest first.
local function list_words(way, long)
  local list, seen = {}, {}
  for _, width in ipairs { way.pack.word, way.unpack.word, long and NARROW_WORD or 4, 4, 1 } do
    local least = math.max(way.pack.word, way.unpack.word)
    if width <= least and not seen[width] then list[#list + 1] = width end
    seen[width] = true
  end
  table.sort(list, function(a, b) return a > b end)
  return list
end

-- Shorter blocks are packed before they go to another GPU (runtime/protocol/rndv_push.c), long messages in chunks.
local MARKED = 64

-- Of blocks shorter than a sector, what so few words and bytes will overwrite is read before it is waited for. Half a round
-- trip of 1 MiB on two H200s, with cold caches (bench/pingpong --cold): of 8 B blocks 25.4 us, not 28.7; in warm ones both 21.
-- Of 4 B blocks 32.1, not 34.2, but in warm caches 28.9, not 27.9; more of 8 B no sooner.
local SECTOR, TOUCHED_LEAST, TOUCHED_WORDS, TOUCHED_BYTES = 32, 8, 1 << 18, 2 << 20

-- The mean length of the innermost blocks; nil where a list decides.
local function block(node)
  while node.child and node.kind ~= "blocks" do node = node.child end
  if not node.size or node.kind == "blocks" then return nil end
  return node.part and node.size // #node.part or node.size
end

-- Half a sector is unpacked in words of 8 B where one call by itself, which the link does not slow, is quicker in words of 4:
-- 16 MiB in step, two H200s: 76 us, not 82.
local HALF, HALF_WORD = 16, 8

-- Clocks by which a block that packs begins after the one before, for each sector that one of its threads reads: where all
-- ask at once, a first chunk is there only when most are. Two H200s, two kernels alone, 4 MiB of 16 B: 26.8 us, all at once
-- 28.0, by 32 clocks 27.4.
local PACE = 16

-- The sectors that a word of a block takes.
local function sectors(length, word) return (length + SECTOR - 1) // SECTOR * word / length end

-- The entries that move in chunks (templates/marked.cuh): the words that a thread moves at a time, the threads of a
-- block, the bytes up to which they are touched, the clocks between blocks, and each direction's word; nil where there are none.
local function marked(p, tree)
  local length = p.family ~= "contiguous" and block(tree)
  if not length or length >= MARKED or p.way.pack.move == "tile" or p.way.unpack.move == "tile" then return nil end
  local sparse = length >= TOUCHED_LEAST and length < SECTOR
  local most = math.tointeger(TOUCHED_BYTES * p.gpu.cached)
  local touched = sparse and math.min(most, TOUCHED_WORDS * p.way.unpack.word) or 0
  local wide = length == HALF and p.way.unpack.store == "exch" and p.way.pack.word == HALF_WORD
  return { each = p.gathers and p.way.pack.each or 1, threads = 256, touched = touched, pack = p.way.pack.word,
    unpack = wide and HALF_WORD or p.way.unpack.word,
    pace = p.gathers and 0 or math.floor(PACE * sectors(length, p.way.pack.word)) }
end

-- The plan for one tree, without words for it.
local function decide(tree, target, wishes)
  local p = { gpu = gpus.of(target), shape = shape.of(tree), way = {} }
  if p.shape then
    p.family, p.bytes = #p.shape.dims == 0 and "contiguous" or "strided", p.shape.size
  else
    p.tree, p.family, p.bytes = tree, tree.family, tree.bytes
  end
  local c = context(p, tree)
  for _, way in ipairs(DIRECTIONS) do p.way[way] = choose(c, way, wishes[way]) end
  p.words = list_words(p.way, c.long)
  p.row = c.row
  p.gathers = c.kind == "narrow" and (p.way.pack.move ~= "shift" or p.way.unpack.move ~= "shift")
  p.marked = marked(p, tree)
  if p.gathers and c.word == 1 then p.record = record.of(tree) end
  -- The narrowest entry counts single bytes, and a launch begins below one element's size.
  p.index_bits = p.bytes < 2 ^ 31 and 32 or 64
  return p, c
end

-- The plan for one tree. wishes: texts of knobs.lua by direction, which stand instead of the model's choice.
function plan.tree(tree, target, wishes)
  local p = decide(tree, target, wishes or {})
  p.target = p.gpu.language
  p.why = why.tree(p)
  return p
end

-- Texts of settings worth trying for a tree in a direction, what the model chooses first.
function plan.knob_list(tree, target, way)
  local p, c = decide(tree, target, {})
  c.way = way
  return knobs.list(c, p.way[way])
end

-- The plan of kernels that leave no choice: way = { word =, each =, threads = } serves both directions.
function plan.fixed(target, family, words, way, index_bits, why_lines)
  way.narrow_each, way.load, way.store, way.order = math.min(way.each, 2), "plain", "plain", "near"
  return { target = gpus.of(target).language, family = family, words = words, way = { pack = way, unpack = way },
    index_bits = index_bits, why = why_lines }
end

-- The interpreter's plan. `too_large`: for a tree that no other family serves. It has no knobs to turn.
function plan.generic(target, too_large, wishes)
  local language = gpus.of(target).language
  for _, way in ipairs(DIRECTIONS) do knobs.read(wishes and wishes[way]) end
  local p = { target = language, family = "generic", words = { 16, 8, 4, 1 }, index_bits = 64, way = {} }
  for _, way in ipairs(DIRECTIONS) do
    p.way[way] = knobs.settle({}, { way = way, kind = "irregular", widest = WORD_MAX })
    p.way[way].narrow_each = 1
  end
  p.why = why.generic(p, too_large)
  return p
end

return plan
