-- model.lua: which setting of knobs.lua serves a tree without a measurement on the spot.
--
-- RULES is tried from the top; the first row that fits sets the knobs, and the rest stay at their first values
-- (knobs.lua). A row fits where the GPU has what it sets, and each number that it names lies in its range, both ends
-- included:
--   kind    "strided", "irregular", "narrow" (knobs.lua); way: "pack" or "unpack", else both
--   length  bytes of a dense block of a strided tree
--   word    the widest word that the tree allows, bytes
--   bytes   packed bytes of one element; words: the same in widest words
--   long    true: blocks of knobs.LONG bytes or more on average
--   rows, columns, step    of a transposed layout (shape.transposed), the columns in widest words
-- `why` completes "because". Times are of an NVIDIA H200, from bench/search: the best of some 250 variants a layout.
--
-- Ranges of bytes say what an H200's L2 cache holds, ranges of words what its threads move at a time. Another GPU's
-- layout is measured by its own cache and threads (gpus.lua): half a cache, half the bytes.
local gpus = require "gpus"
local knobs = require "knobs"

local model = {}

local KiB, MiB, ANY = 1 << 10, 1 << 20, math.huge

local FULL = gpus.of("cuda").full   -- threads that run at a time

local RULES = {
  -- Transposed: neighbours in the packed stream far apart, those of another dimension side by side.
  { kind = "strided", rows = { 16, ANY }, columns = { 16, ANY }, step = { 1, 63 }, word = { 4, 16 },
    set = "word=16 each=2 threads=512 move=tile",
    why = "tiles of 32 by 32 words turned in shared memory make neighbouring threads neighbours on both sides: "
      .. "1.8 times (packing) to 2.9 times (unpacking) quicker for 512 x 512 doubles" },

  -- Many short blocks: each touches a sector or two of 32 B, and the sectors are what it costs.
  { kind = "strided", way = "pack", length = { 16, 32 }, word = { 8, 16 }, bytes = { 16 * MiB, ANY },
    set = "word=8 threads=256 move=bulk",
    why = "packed bytes that leave by asynchronous copies keep the store queues free for loads: 64 MiB in 104 us, "
      .. "not 109, for blocks of 16 B, 51.5, not 57.6, for 32 B" },
  { kind = "strided", way = "unpack", length = { 32, 32 }, word = { 16, 16 }, bytes = { 16 * MiB, ANY },
    set = "word=16 each=8 threads=1024 order=far",
    why = "a thread's words a whole grid apart spread the sectors being written over memory: 64 MiB in "
      .. "92.3 us, not 98.7" },
  { kind = "strided", way = "unpack", length = { 4, 7 }, word = { 4, 4 }, bytes = { 16 * MiB, ANY },
    set = "word=4 threads=1024 store=exch",
    why = "the L2 cache merges an exchange into its sector, where a store waits for memory: 64 MiB in "
      .. "925 us, not 990" },
  { kind = "strided", way = "unpack", length = { 8, 16 }, word = { 4, 16 }, bytes = { 16 * MiB, ANY },
    set = "word=4 threads=256 store=exch",
    why = "the L2 cache merges an exchange into its sector, where a store waits for memory: a call of 64 MiB in "
      .. "16 B blocks takes 229 us, not 246 in words of 8 B" },

  -- Long blocks that begin anywhere.
  { kind = "strided", way = "pack", length = { 64, ANY }, word = { 4, 8 }, bytes = { 2 * MiB, ANY },
    set = "word=8 each=4 threads=256",
    why = "narrow words of long blocks are read as fast as wide ones by 4 loads a thread: 16 MiB in words of 4 B in a call "
      .. "of 14.5 us, not 18.0" },
  { kind = "strided", way = "unpack", length = { 64, ANY }, word = { 4, 4 }, bytes = { 32 * MiB, ANY },
    set = "word=4 each=2 threads=1024",
    why = "many narrow words are quicker in large blocks of threads: 64 MiB of 260 B blocks in 72.8 us, not 77.3" },
  { kind = "strided", way = "unpack", length = { 64, ANY }, word = { 4, 4 }, bytes = { 2 * MiB, ANY },
    set = "word=4 each=2 threads=256 load=nc",
    why = "words read once need no line of the L1 cache: 16 MiB of 380 B blocks in 15.6 us, not 16.6" },

  -- A few MiB: the second call finds much of it in the L2 cache.
  { kind = "strided", way = "pack", length = { 4, 12 }, word = { 4, 4 }, bytes = { 512 * KiB, 2 * MiB },
    set = "word=4 each=4 threads=256 load=last",
    why = "sectors of which 4 B are read are better kept in the L2 cache: 1 MiB in 3.16 us, not 3.45" },
  { kind = "strided", way = "pack", length = { 4, 12 }, word = { 4, 4 }, bytes = { 2 * MiB, 8 * MiB },
    set = "word=4 threads=512 load=first",
    why = "sectors that the L2 cache can't keep all had better go first: a call of 4 MiB takes 28.2 us, not 31.3" },
  { kind = "strided", way = "pack", length = { 8, 8 }, word = { 8, 8 }, bytes = { 3 * MiB // 2, 3 * MiB },
    set = "word=8 each=4 threads=256 load=nc",
    why = "the lines of a column that just fits the L2 cache are read once: a 2 MiB face in a call of 9.7 us, "
      .. "not 10.5" },
  { kind = "strided", way = "pack", length = { 8, 8 }, word = { 8, 8 }, bytes = { 3 * MiB, 8 * MiB },
    set = "word=8 threads=256 load=nc",
    why = "words read once need no line of the L1 cache: 4 MiB in 10.8 us, not 12.1" },
  { kind = "strided", way = "pack", length = { 16, 16 }, word = { 16, 16 }, bytes = { 3 * MiB, 6 * MiB },
    set = "word=16 each=4 threads=256",
    why = "loads in flight are worth more than threads while the L2 cache holds all: 4 MiB of 16 B blocks in 3.63 us, "
      .. "not 4.45" },
  { kind = "strided", way = "unpack", length = { 16, 16 }, word = { 16, 16 }, bytes = { 3 * MiB, 6 * MiB },
    set = "word=16 each=4 threads=256 order=far load=first",
    why = "a thread's words a whole grid apart, read to leave the L2 cache first, leave it to what is written: 4 MiB of 16 B "
      .. "blocks in 4.72 us, not 5.08" },
  { kind = "strided", way = "unpack", length = { 32, 32 }, word = { 16, 16 }, bytes = { 2 * MiB, 8 * MiB },
    set = "word=16 each=2 threads=128 load=last",
    why = "small blocks of threads begin and end sooner: 4 MiB in 2.40 us, not 2.84" },
  { kind = "strided", way = "pack", length = { 64, ANY }, bytes = { 2 * MiB, 16 * MiB },
    set = "word=16 each=2 threads=128",
    why = "small blocks of threads begin and end sooner: a call of 4 MiB takes 8.1 us, not 8.6" },
  { kind = "strided", way = "unpack", length = { 64, ANY }, bytes = { 2 * MiB, 16 * MiB },
    set = "word=16 each=2 threads=256 load=last",
    why = "packed bytes that were just received are best kept in the L2 cache: a call of 4 MiB takes 8.2 us, "
      .. "not 8.4" },
  { kind = "strided", way = "unpack", length = { 0, 63 }, bytes = { 0, 2 * MiB }, set = "word=8 threads=256 load=last",
    why = "packed bytes that were just received are best kept in the L2 cache: 1 MiB of 32 B blocks in "
      .. "1.35 us, not 1.46" },
  { kind = "strided", way = "unpack", bytes = { 0, 2 * MiB }, set = "word=16 threads=256 load=last",
    why = "packed bytes that were just received are best kept in the L2 cache" },

  -- Any other strided layout: one load a thread, since more were nowhere clearly quicker.
  { kind = "strided", word = { 4, 4 }, words = { 1 << 20, ANY }, set = "word=4 threads=1024",
    why = "many narrow words are quicker in large blocks of threads" },
  { kind = "strided", length = { 0, 63 }, word = { 16, 16 }, set = "word=8 threads=256",
    why = "blocks below 64 B are up to 15 % quicker in words of 8 B than of 16" },
  { kind = "strided", set = "word=16 threads=256",
    why = "many threads with one load each hide the latency as well as many loads" },

  -- Irregular: small elements spread over all multiprocessors before a thread takes more.
  { kind = "irregular", words = { 4 * FULL, ANY }, set = "word=16 each=4 threads=256",
    why = "one element's words are at least 4 times the GPU's threads: 4 loads in flight hide the "
      .. "latency of its lists" },
  { kind = "irregular", way = "unpack", words = { FULL, 2 * FULL }, set = "word=16 each=2 threads=256 load=last",
    why = "one element's words are at least the GPU's threads, and packed bytes that were just received are best kept "
      .. "in the L2 cache" },
  { kind = "irregular", words = { 2 * FULL, ANY }, set = "word=16 each=2 threads=128",
    why = "one element's words are at least twice the GPU's threads, and small blocks of threads with unequal work "
      .. "end sooner: 32,768 irregular blocks in a call of 11.5 us, not 13.0" },
  { kind = "irregular", words = { FULL, ANY }, set = "word=16 each=2 threads=256",
    why = "one element's words are at least the GPU's threads" },
  { kind = "irregular", set = "word=16 threads=256",
    why = "one element's words are few, and spread over all multiprocessors" },

  { kind = "narrow", long = true, set = "threads=128 move=shift",
    why = "long blocks are moved 16 B at a time, wherever they begin: 16 MB in blocks of 1 to 2,048 B are packed in 22 us, "
      .. "unpacked in 25; byte by byte 59 and 73" },
  { kind = "narrow", set = "threads=256",
    why = "words so narrow are moved in groups of 16 packed bytes, an access each" },
}

local RANGES = { "length", "word", "bytes", "words", "rows", "columns", "step" }

-- A number of c, as an H200 has to move it.
local function number(c, name)
  if name == "bytes" then return c.bytes / c.gpu.cached end
  return name == "words" and c.words * c.gpu.words or c[name]
end

local function fits(rule, c)
  if rule.kind ~= c.kind or rule.way and rule.way ~= c.way or rule.long and not c.long then return false end
  for _, name in ipairs(RANGES) do
    local range = rule[name]
    if range and not (c[name] and range[1] <= number(c, name) and number(c, name) <= range[2]) then return false end
  end
  return gpus.serves(c.gpu, knobs.read(rule.set))
end

-- A rule's setting on another GPU.
local function suit(wish, c)
  local gpu = c.gpu
  wish.threads = wish.threads and gpus.threads(gpu, wish.threads)
  if wish.move ~= "bulk" and c.words >= gpu.full then wish.each = math.min((wish.each or 1) * gpu.wider, 16) end
  return wish
end

-- The wish for c (knobs.lua, the numbers above, and gpu: gpus.lua), and why.
function model.choose(c)
  for _, rule in ipairs(RULES) do
    if fits(rule, c) then
      local why = c.gpu.measured and rule.why or rule.why .. " (an H200's figures)"
      return suit(knobs.read(rule.set), c), why
    end
  end
end

return model
