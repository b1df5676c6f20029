-- plan.lua: decides how a tree's kernel works, and says why.
--
-- A plan is a table: family, words (widths in bytes, widest first, the last 1), threads, words_per_thread,
-- index_bits, why (lines for a person); for the strided families shape (see shape.lua), for the irregular ones tree, and
-- gathers where a thread's words are neighbours in the packed stream, record where those make small records (record.lua).
local record = require "record"
local shape = require "shape"

local plan = {}

local THREADS = 256
local WORD_MAX = 16

-- The GPU that the loads in flight are chosen for: an H200. Others differ little in threads for a byte.
local GPU = { name = "H200", multiprocessors = 132, threads = 2048 }

-- Strided layouts: the widest word by the length of the block, and the threads of a block. One load a thread: more
-- were nowhere clearly quicker, and for blocks of 16 and 32 B of 64 MiB narrower words were, by 15 % (bench/search on
-- an H200: within 5 % of the best of some 250 variants a layout, but for blocks below 64 B in tens of MiB, 5 to 11 %).
local STRIDED = { { block = 64, word = 16 }, { block = 0, word = 8 } }
local THREADS_MANY = { words = 1 << 20, width = 4, threads = 1024 }   -- for many words as narrow as this

-- Irregular ones: words for each thread to load before it stores the first, by how many times over one element's words
-- fill the GPU's threads: small elements must spread over all multiprocessors before a thread takes more.
local FLIGHT = { { fills = 4, words = 4 }, { fills = 2, words = 2 }, { fills = 0, words = 1 } }

local TARGETS = { cuda = true }

local function check_target(target)
  if not TARGETS[target] then error(("there is no target %q; there is cuda"):format(target), 0) end
end

local function words_below(widest)
  local list = { widest }
  for _, width in ipairs { 4, 1 } do
    if width < widest then list[#list + 1] = width end
  end
  return list
end

local function loads_in_flight(words)
  local capacity = GPU.multiprocessors * GPU.threads
  for _, row in ipairs(FLIGHT) do
    if words >= row.fills * capacity then return row.words, capacity end
  end
end

-- Sentences of plan.why, one function a decision.

local IRREGULAR = {
  struct = "every offset and length is a constant of the source",
  indexed = "its offsets are in device memory, so that types that differ in them alone share this kernel",
  mixed = "parts and strides are constants of the source, long lists are in device memory",
}

local function count_nodes(node, counts)
  counts[node.kind] = (counts[node.kind] or 0) + 1
  if node.child then count_nodes(node.child, counts) end
  for _, part in ipairs(node.part or {}) do count_nodes(part, counts) end
  return counts
end

-- "2 strides, 1 table", most telling first.
local function say_nodes(tree)
  local counts, list = count_nodes(tree, {}), {}
  for _, kind in ipairs { "seq", "index", "table", "blocks", "stride", "dense" } do
    if counts[kind] then list[#list + 1] = ("%d %s"):format(counts[kind], kind) end
  end
  return table.concat(list, ", ")
end

local function say_irregular(p)
  return ("family %s: a tree of %s; %s"):format(p.family, say_nodes(p.tree), IRREGULAR[p.family])
end

-- What memory costs on the way, in words for each kind of list in the tree.
local function say_lists(node, list)
  if node.kind == "table" then
    list[#list + 1] = ("%d B an offset"):format(node.entry)
  elseif node.kind == "blocks" then
    list[#list + 1] = ("%d B a block, found in a table of where each piece of the packed stream begins"):format(
      node.entry + node.start)
  end
  if node.child then say_lists(node.child, list) end
  for _, part in ipairs(node.part or {}) do say_lists(part, list) end
  return list
end

local function say_limit(p)
  local list = p.tree and say_lists(p.tree, {}) or {}
  local lists = #list > 0 and (", and its list%s (%s)"):format(#list == 1 and "" or "s", table.concat(list, "; ")) or ""
  if p.record then
    return ("limit: records of %d B in %d accesses of up to %d B each, where address and extent are multiples of %d; "
      .. "16 packed B are one access%s"):format(p.record.size, #p.record.pieces, p.record.align, p.record.align, lists)
  end
  if p.gathers then
    return ("limit: words of %d B take an instruction each on the user's side; %d of them are one access on the packed "
      .. "side%s"):format(p.words[1], p.words_per_thread, lists)
  end
  return ("limit: the bytes and the sectors that the user's side touches%s"):format(lists)
end

local function say_family(p)
  if p.tree then return say_irregular(p) end
  local s = p.shape
  if p.family == "contiguous" then
    return ("family contiguous: one block of %d B; a copy, no kernel, unless elements lie apart"):format(s.length)
  end
  local dims = {}
  for i, dim in ipairs(s.dims) do dims[i] = ("%d x %d B"):format(dim.count, dim.step) end
  return ("family strided: blocks of %d B in %d dimension%s (%s)"):format(
    s.length, #dims, #dims == 1 and "" or "s", table.concat(dims, ", "))
end

local function say_words(p)
  local widest = p.words[1]
  local limit = p.shape and p.shape.length < STRIDED[1].block and STRIDED[2].word or WORD_MAX
  local narrower = #p.words > 1
    and ("; also %s B, for addresses, extents and ranges that it does not divide"):format(
      table.concat(p.words, " and ", 2)) or ""
  return ("words of %d B: the largest power of two up to %d that divides the block%s%s"):format(
    widest, limit, p.tree and ", every step and every offset" or #p.shape.dims > 0 and " and every step" or "", narrower)
end

local function widest_word(s)
  for _, row in ipairs(STRIDED) do
    if s.length >= row.block then return shape.word(s, row.word) end
  end
end

local function say_flight(p, words, capacity)
  if p.gathers then
    return ("loads in flight: %d a thread, as many words as are moved together on the packed side"):format(
      p.words_per_thread)
  end
  if p.shape then return "loads in flight: 1 a thread; many threads hide the latency as well as many loads" end
  return ("loads in flight: %d a thread, since one element is %d words and the threads of an %s are %d"):format(
    p.words_per_thread, words, GPU.name, capacity)
end

local function say_index(p)
  if p.index_bits == 32 then
    return ("index arithmetic in 32 bits: an element's %d B are below 2^31, so any word in it counts in 32 bits; "
      .. "one launch covers at most 2^31 - 1 words"):format(p.bytes)
  end
  return ("index arithmetic in 64 bits: an element's %d B, counted in words of 1 B, pass 2^31"):format(p.bytes)
end

local function say_grid(p, words)
  local block = p.threads * p.words_per_thread
  local blocks = words // block + (words % block > 0 and 1 or 0)
  return ("grid: a block of %d threads moves %d words (%d B), neighbouring threads neighbouring packed words; "
    .. "one element is %d block%s"):format(p.threads, block, block * p.words[1], blocks, blocks == 1 and "" or "s")
end

-- The interpreter's plan. `too_large`: for a tree that no other family serves.
function plan.generic(target, too_large)
  check_target(target)
  local why = {
    too_large and "family generic: the tree is too large for source and too irregular for a list; it is interpreted"
      or "family generic: one kernel that interprets any tree",
    "words of 16, 8, 4 or 1 B: the launch takes the widest that divides every number of the tree and the addresses",
    "loads in flight: 1 a thread, since walking the tree takes longer than the load",
    "index arithmetic in 64 bits: the tree is not known when this is compiled",
    ("grid: a block of %d threads moves %d words, neighbouring threads neighbouring packed words"):format(THREADS, THREADS),
  }
  return { family = "generic", words = { 16, 8, 4, 1 }, threads = THREADS, words_per_thread = 1, index_bits = 64,
    why = why }
end

-- Words so narrow that the packed side is moved in groups of them; the code for a word's place, which is written out
-- for each word of a group, must be short.
local NARROW = 2
local GATHERED_NODES = 16

local function gathers(p)
  if p.words[1] > NARROW then return false end
  local nodes = 0
  if p.shape then return #p.shape.dims < GATHERED_NODES end
  for _, n in pairs(count_nodes(p.tree, {})) do nodes = nodes + n end
  return nodes <= GATHERED_NODES
end

-- The plan for one tree.
function plan.tree(tree, target)
  check_target(target)
  local p = { shape = shape.of(tree), threads = THREADS }
  if p.shape then
    p.family = #p.shape.dims == 0 and "contiguous" or "strided"
    p.bytes = p.shape.size
    p.words = words_below(widest_word(p.shape))
  else
    p.tree, p.family, p.bytes = tree, tree.family, tree.bytes
    p.words = words_below(tree.word)
  end
  p.gathers = gathers(p)
  local words = p.bytes // p.words[1]
  local capacity
  if p.shape then
    p.words_per_thread = 1
    if p.words[1] == THREADS_MANY.width and words >= THREADS_MANY.words then p.threads = THREADS_MANY.threads end
  else
    p.words_per_thread, capacity = loads_in_flight(words)
  end
  if p.gathers then p.words_per_thread = WORD_MAX // p.words[1] end
  if p.gathers and p.words[1] == 1 then p.record = record.of(tree) end
  -- The narrowest entry counts single bytes, and a launch begins below one element's size.
  p.index_bits = p.bytes < 2 ^ 31 and 32 or 64
  p.why = { say_family(p), say_words(p), say_flight(p, words, capacity), say_index(p), say_grid(p, words) }
  p.why[#p.why + 1] = say_limit(p)
  return p
end

return plan
