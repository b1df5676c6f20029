-- gpus.lua: all that differs between GPUs: a row of properties for each architecture, and what follows from them.
--
-- A target is "cuda" (an H200), "cuda sm_80" (the row of an architecture), "cuda sm_80 multiprocessors=108 threads=2048
-- cache=40 memory=1555" (a GPU at hand, whose driver has told its properties: gpu.c) or "hip" (AMD's GPUs: an H200's
-- figures, but nothing that only NVIDIA's have). An architecture without a row has the row of the newest that is older.
-- gpu_rows.lua makes of the rows what the runtime reads.
local gpus = {}

-- name: whose properties a row has; multiprocessors; threads that each runs at a time; cache: MiB of L2; in GB/s and
-- one way: memory, link (to another GPU of the node), host. The makers' figures.
gpus.ROWS = {
  { sm = 70, name = "V100", multiprocessors = 80, threads = 2048, cache = 6, memory = 900, link = 150, host = 16 },
  { sm = 75, name = "T4", multiprocessors = 40, threads = 1024, cache = 4, memory = 320, link = 16, host = 16 },
  { sm = 80, name = "A100", multiprocessors = 108, threads = 2048, cache = 40, memory = 2039, link = 300, host = 32 },
  { sm = 86, name = "A40", multiprocessors = 84, threads = 1536, cache = 6, memory = 696, link = 32, host = 32 },
  { sm = 89, name = "L40S", multiprocessors = 142, threads = 1536, cache = 96, memory = 864, link = 32, host = 32 },
  { sm = 90, name = "H200", multiprocessors = 132, threads = 2048, cache = 50, memory = 4800, link = 450, host = 64 },
  { sm = 100, name = "B200", multiprocessors = 148, threads = 2048, cache = 126, memory = 8000, link = 900, host = 64 },
  { sm = 120, name = "RTX PRO 6000", multiprocessors = 188, threads = 1536, cache = 128, memory = 1792, link = 64,
    host = 64 },
}

-- The row that the rules of model.lua were measured on. An H100 has the same choices: its multiprocessors and L2 cache
-- are the same, and its narrower memory asks for no more loads.
local MEASURED = 90

-- The oldest architecture of NVIDIA that has what a setting (knobs.lua) names. Templates leave it out below, as in HIP.
local SINCE = {
  load = { nc = 80, first = 80, last = 80 },   -- L2 policies and no_allocate for loads
  move = { bulk = 90 },                        -- cp.async.bulk from shared memory
}

local SHARE = 83 / 96         -- of the memory's figure that kernels reach: an H200 4150 GB/s of 4800
local LAUNCH_US = 3           -- of any kernel

local GIVEN = { "multiprocessors", "threads", "cache", "memory" }

local function row_of(sm)
  local found = gpus.ROWS[1]
  for _, row in ipairs(gpus.ROWS) do
    if row.sm <= sm then found = row end
  end
  return found
end

-- 2^n next to x.
local function power_of_two(x) return 2.0 ^ math.floor(math.log(x, 2) + 0.5) end

-- A GPU: its properties, and
--   full      threads that run at a time
--   words     an H200's threads for one of the GPU's
--   cached    the L2 cache as a part of the H200's, a power of two: the rules' sizes are known no better, and figures
--             of one chip differ (an H200's driver says 50 or 60 MiB)
--   wider     how many times the H200's bytes in flight a thread needs, to keep the memory busy: a power of two, at
--             least 1, since more loads than needed do no harm
--   measured  the rules' figures are this GPU's
--   like      "an H200": whose figures are told
--   language  "cuda" or "hip"
local function derive(row, given)
  local gpu, measured = {}, row_of(MEASURED)
  for name, value in pairs(row) do gpu[name] = value end
  local same = true
  for _, name in ipairs(GIVEN) do
    same = same and (given[name] or row[name]) == row[name]
    gpu[name] = given[name] or row[name]
  end
  local function need(g) return g.memory / (g.multiprocessors * g.threads) end
  gpu.full = gpu.multiprocessors * gpu.threads
  gpu.words = measured.multiprocessors * measured.threads / gpu.full
  gpu.cached = power_of_two(gpu.cache / measured.cache)
  gpu.wider = math.tointeger(math.max(1, power_of_two(need(gpu) / need(measured))))
  gpu.bytes_per_us, gpu.launch_us = gpu.memory * 1000 * SHARE, LAUNCH_US
  local an = row.name:find "^[AHLR]" and "an " or "a "
  gpu.measured = row == measured and same
  gpu.like = same and an .. row.name or ("a GPU of %d GB/s"):format(gpu.memory)
  return gpu
end

local function wrong(target) error(("there is no target %q; there are cuda and hip"):format(target), 0) end

local function read(target)
  local sm, rest = target:match("^cuda sm_(%d+)%a?(.*)$")
  if target == "cuda" or target == "hip" then sm, rest = MEASURED, "" end
  if not sm then wrong(target) end
  local given, items = { sm = tonumber(sm) }, 0
  for item in rest:gmatch("%S+") do
    local name, value = item:match("^(%l+)=(%d+)$")
    if not name or tonumber(value) < 1 then wrong(target) end
    given[name], items = tonumber(value), items + 1
  end
  if items > 0 then
    for _, name in ipairs(GIVEN) do items = items - (given[name] and 1 or math.huge) end
    if items ~= 0 then wrong(target) end
  end
  local gpu = derive(row_of(given.sm), given)
  gpu.sm, gpu.language = given.sm, target:match("^%l+")
  gpu.measured = gpu.measured and gpu.language == "cuda"
  return gpu
end

local known = {}

-- The GPU of a target.
function gpus.of(target)
  if not known[target] then known[target] = read(target) end
  return known[target]
end

-- Whether a GPU has what a setting names.
function gpus.serves(gpu, setting)
  for name, since in pairs(SINCE) do
    local sm = since[setting[name]]
    if sm and (gpu.language == "hip" or gpu.sm < sm) then return false end
  end
  return true
end

-- Threads of a block: at least two whole blocks fill a multiprocessor. Of blocks of 1024 threads, a multiprocessor of
-- 1536 (sm_86, sm_89, sm_120) would run one, and one of 1024 (sm_75) would wait for a block's last thread. The shared
-- memory of a tile (17 KiB, tile.cuh) then is nowhere the limit: 64 KiB on sm_75, the least, hold three.
function gpus.threads(gpu, threads)
  while threads > 128 and (gpu.threads % threads > 0 or 2 * threads > gpu.threads) do threads = threads // 2 end
  return threads
end

return gpus
