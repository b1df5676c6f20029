-- plan.lua: decides how a tree's kernel works, and says why.
--
-- A plan is a table: family, words (widths in bytes, widest first, the last 1), threads, words_per_thread,
-- index_bits, why (lines for a person), and for the strided families shape (see shape.lua).
local shape = require "shape"

local plan = {}

local THREADS = 256
local WORD_MAX = 16

-- The GPU that the loads in flight are chosen for: an H200. Others differ little in threads for a byte.
local GPU = { name = "H200", multiprocessors = 132, threads = 2048 }

-- Words for each thread to load before it stores the first, by how many times over one element's words
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

local function say_family(p)
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
  local narrower = #p.words > 1
    and ("; also %s B, for addresses, extents and ranges that it does not divide"):format(
      table.concat(p.words, " and ", 2)) or ""
  return ("words of %d B: the largest power of two up to %d that divides the block%s%s"):format(
    widest, WORD_MAX, #p.shape.dims > 0 and " and every step" or "", narrower)
end

local function say_flight(p, words, capacity)
  return ("loads in flight: %d a thread, since one element is %d words and the threads of an %s are %d"):format(
    p.words_per_thread, words, GPU.name, capacity)
end

local function say_index(p)
  if p.index_bits == 32 then
    return ("index arithmetic in 32 bits: an element's %d B are below 2^31, so any word in it counts in 32 bits; "
      .. "one launch covers at most 2^31 - 1 words"):format(p.shape.size)
  end
  return ("index arithmetic in 64 bits: an element's %d B, counted in words of 1 B, pass 2^31"):format(p.shape.size)
end

local function say_grid(p, words)
  local block = p.threads * p.words_per_thread
  local blocks = words // block + (words % block > 0 and 1 or 0)
  return ("grid: a block of %d threads moves %d words (%d B), neighbouring threads neighbouring packed words; "
    .. "one element is %d block%s"):format(p.threads, block, block * p.words[1], blocks, blocks == 1 and "" or "s")
end

-- The interpreter's plan, for any tree. `obstacle` names the node kind that has no family of its own.
function plan.generic(target, obstacle)
  check_target(target)
  local why = {
    obstacle and ("family generic: %s nodes have no family of their own yet; the tree is interpreted"):format(obstacle)
      or "family generic: one kernel that interprets any tree",
    "words of 16, 8, 4 or 1 B: the launch takes the widest that divides every number of the tree and the addresses",
    "loads in flight: 1 a thread, since walking the tree takes longer than the load",
    "index arithmetic in 64 bits: the tree is not known when this is compiled",
    ("grid: a block of %d threads moves %d words, neighbouring threads neighbouring packed words"):format(THREADS, THREADS),
  }
  return { family = "generic", words = { 16, 8, 4, 1 }, threads = THREADS, words_per_thread = 1, index_bits = 64,
    why = why }
end

-- The plan for one tree.
function plan.tree(tree, target)
  check_target(target)
  local s, obstacle = shape.of(tree)
  if not s then return plan.generic(target, obstacle) end
  local p = { shape = s, threads = THREADS }
  p.family = #s.dims == 0 and "contiguous" or "strided"
  p.words = words_below(shape.word(s, WORD_MAX))
  local words = s.size // p.words[1]
  local capacity
  p.words_per_thread, capacity = loads_in_flight(words)
  -- The narrowest entry counts single bytes, and a launch begins below one element's size.
  p.index_bits = s.size < 2 ^ 31 and 32 or 64
  p.why = { say_family(p), say_words(p), say_flight(p, words, capacity), say_index(p), say_grid(p, words) }
  return p
end

return plan
