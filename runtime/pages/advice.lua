-- advice.lua: what would help, by the reasons that a run gave. One table of rules: `reason` are patterns of Lua in the
-- text of a reason, any of which is enough; `when` looks at the whole report; `title` and `advice` are shown. A reason
-- belongs to the first rule that knows it. `fine`: nothing is to be done.
local M = {}

M.rules = {
  { reason = { "STRIDEC_DISABLE" },
    title = "stridec was switched off",
    advice = "Unset STRIDEC_DISABLE, or set it to 0." },
  { reason = { "stepped aside" },
    title = "stridec stepped aside at the start",
    advice = "The program's first lines on standard error say why. `stridec doctor` checks the same things. "
      .. "Each MPI needs the library that was built for it." },
  { reason = { "NVRTC", "nvrtc", "no compiler for kernels", "can't be compiled" },
    title = "Kernels could not be compiled",
    advice = "Compile them ahead of time where NVRTC is: `stridec gen SPEC -o kernels`, then run with "
      .. "STRIDEC_AOT=kernels. Or install NVRTC (NVIDIA's wheel nvidia-cuda-nvrtc); `stridec doctor` says "
      .. "whether it is found." },
  { reason = { "STRIDEC_TRANSPORT" },
    title = "A transport was forced",
    advice = "Unset STRIDEC_TRANSPORT, so that each message takes the way that was measured to be the quickest." },
  { reason = { "STRIDEC_HOST" },
    title = "Data in host memory was left to the MPI",
    advice = "Unset STRIDEC_HOST or set it to auto. Ranks of a node must share /dev/shm for it." },
  { reason = { "too seldom", "not sent before" },
    title = "Types were used too seldom to be read",
    advice = "Make a type once, commit it, and use it for all messages. A type that is made anew for each "
      .. "message is seen as a new one. `stridec_register` (stridec.h) makes types known ahead of the first "
      .. "message." },
  { reason = { "no derived type was" }, fine = true,
    title = "There was nothing to do",
    advice = "stridec serves derived datatypes: all in device memory, and in host memory those that are used again "
      .. "and again. `stridec doctor --calls` says what becomes of each MPI call." },
  { reason = { "several memories" },
    title = "A message lay in several memories",
    advice = "Put what one message sends into one allocation, or send a message for each." },
  { reason = { "can't read the type", "no reader", "no known pair", "does not tell how the type", "another size than" },
    title = "Types that stridec can't read",
    advice = "Build them from the MPI's usual constructors (vector, indexed, struct, subarray). "
      .. "STRIDEC_LOG=info names each type and what is unknown in it." },
  { reason = { "no memory in common", "no place in memory of the node", "no file for the node", "does not share any" },
    title = "Ranks of a node had no memory in common",
    advice = "Let the containers of a node share /dev/shm and process numbers, and give /dev/shm room. `stridec "
      .. "doctor` shows its size." },
  { reason = { "can't be read from here" }, fine = true,
    title = "Messages between nodes went in chunks",
    advice = "Between nodes that is the quickest way; `mpirun -n 2 stridec tune` on two nodes measures how to "
      .. "cut them. Within a node it means that the ranks do not reach each other's memory: `stridec doctor` "
      .. "says why." },
  { reason = { "receiver can't read", "without stridec", "does not reach" },
    title = "Memory of a sender was out of its receiver's reach",
    advice = "Run all ranks with `stridec run`. In containers share the node's process numbers, and let each "
      .. "rank see the GPUs of its node. Between nodes packing is the way to go." },
  { reason = { "too short", "brief" },
    title = "Messages were short",
    advice = "Send more at a time: one datatype for several fields (MPI_Type_create_struct), or one message for "
      .. "several steps. Below some hundreds of bytes the MPI alone is as quick." },
  { reason = { "built%-in figures", "no figures", "without figures", "^not in " },
    title = "The ways were chosen by built-in figures",
    advice = "Between nodes: measure this system once, `stridec tune` by two ranks. It takes about a minute. Within a "
      .. "node: the receiver could not open the memory, as with cudaMallocAsync and managed memory; "
      .. "STRIDEC_LOG=info says so." },
  { reason = { "as quickly", "one piece", "contiguous", "is given it as it is" }, fine = true,
    title = "The MPI is as quick here",
    advice = "Nothing is to be done: the MPI moves these as quickly by itself." },
  { when = function(r) return r.slow end,
    title = "Packing was far from what this GPU can do",
    advice = "Longer blocks and longer messages pack faster. `stridec inspect SPEC NAME` says what limits a "
      .. "layout, and `stridec tune` looks for quicker kernels." },
  { when = function(r) return r.compiled end,
    title = "Kernels were compiled during the run",
    advice = "The next run finds them in the cache. Where jobs start with an empty cache, point "
      .. "STRIDEC_CACHE_DIR to a folder that is kept, or compile ahead of time: `stridec gen SPEC -o "
      .. "kernels`, STRIDEC_AOT=kernels." },
}

-- Returns the rule of a reason, or nil.
function M.of(why)
  for _, rule in ipairs(M.rules) do
    for _, pattern in ipairs(rule.reason or {}) do
      if why:find(pattern) then return rule end
    end
  end
end

-- Returns the rules that apply, those with most bytes first: {rule, whys = {{why, bytes}...}, bytes, note}.
-- `reasons` are {why, bytes}; `facts` are what the rules' functions look at, each with a sentence, or nil.
function M.choose(reasons, facts)
  local found, by_rule = {}, {}
  local function add(rule, why, bytes, note)
    local one = by_rule[rule]
    if not one then
      one = { rule = rule, whys = {}, bytes = 0, order = #found, note = note }
      by_rule[rule], found[#found + 1] = one, one
    end
    one.whys[#one.whys + 1] = why
    one.bytes = one.bytes + bytes
  end
  for _, r in ipairs(reasons) do
    local rule = M.of(r.why)
    if rule then add(rule, r.why, r.bytes or 0) end
  end
  for _, rule in ipairs(M.rules) do
    local note = rule.when and rule.when(facts)
    if note then add(rule, nil, 0, note) end
  end
  table.sort(found, function(a, b)
    if not a.rule.fine ~= not b.rule.fine then return not a.rule.fine end
    if a.bytes ~= b.bytes then return a.bytes > b.bytes end
    return a.order < b.order
  end)
  return found
end

return M
