-- structure.lua: `lua5.4 tests/structure.lua BUILD`: whether runtime/ keeps to the order of its rooms, which the table
-- in runtime/DESIGN.md gives: a room includes, and calls, only rooms above it in the table. gen/ and spec/ know nothing
-- of runtime/. Includes are read from the sources, calls from the objects that BUILD holds. It checks sizes, comments,
-- conditions on the MPI, and who opens files by name. Exit status 1 if a check fails.
local build = arg[1] or error("usage: structure.lua BUILD")

package.path = "tests/?.lua;" .. package.path
local results = require "results"

local function lines_of(command)
  local lines = {}
  for line in results.output(command):gmatch("[^\n]+") do lines[#lines + 1] = line end
  return lines
end

local rank, rooms = {}, 0
for line in io.lines("runtime/DESIGN.md") do
  local room = line:match("^| `([a-z]+)/` |")
  if room then rooms = rooms + 1; rank[room] = rooms end
end

local function report(what, wrong)
  table.sort(wrong)
  results.check(what, wrong)
end

local sources = lines_of("ls runtime/*/*.[ch] gen/*.[ch] spec/*.[ch]")
local function room_of(path) return path:match("^runtime/([a-z]+)/") end

-- Folders without a row, and files outside of all.
local astray = {}
for _, path in ipairs(lines_of("ls -d runtime/*")) do
  local name = path:match("^runtime/(.*)$")
  if not name:match("%.md$") and not rank[name] then astray[#astray + 1] = path .. ": no room of runtime/DESIGN.md" end
end
report("every file of runtime/ is in a room", astray)

-- What an include names: beside the file, else from runtime/ on.
local function target_of(path, include)
  local beside = path:match("^(.*/)") .. include
  while beside:find("[^/]+/%.%./") do beside = beside:gsub("[^/]+/%.%./", "", 1) end
  local f = io.open(beside)
  if f then f:close() return beside end
  return "runtime/" .. include
end

local against = {}
for _, path in ipairs(sources) do
  local own = room_of(path)
  for line in io.lines(path) do
    local include = line:match('^#include "(.-)"')
    local target = include and target_of(path, include)
    local room = target and room_of(target)
    if room and (not own or (rank[room] or 0) > (rank[own] or 0)) then
      against[#against + 1] = path .. " includes " .. target
    end
  end
end
report("no include runs against the order of the rooms", against)

-- Objects: what each defines, and what it needs of others.
local defined, needs = {}, {}
local objects = ("ls B/runtime/*/*.o B/gen/*.o B/spec/*.o 2>/dev/null"):gsub("B/", function() return build .. "/" end)
for _, object in ipairs(lines_of(objects)) do
  local source = object:sub(#build + 2):gsub("%.o$", ".c")
  for _, line in ipairs(lines_of("nm " .. object)) do
    local kind, symbol = line:match("([A-Za-z]) ([%w_]+)$")
    if kind == "U" then needs[#needs + 1] = { source, symbol }
    elseif kind and kind:match("[TDBRCVW]") then defined[symbol] = source end
  end
end
local upward = #needs == 0 and { "no objects in " .. build } or {}
for _, need in ipairs(needs) do
  local source, symbol = need[1], need[2]
  local from, to = room_of(source), defined[symbol] and room_of(defined[symbol])
  if to and (not from or (rank[to] or 0) > (rank[from] or 0)) then
    upward[#upward + 1] = source .. " uses " .. symbol .. " of " .. defined[symbol]
  end
end
report("no symbol is used against the order of the rooms", upward)

-- Circles of files within a room, by symbols: Tarjan's strongly connected components.
local MOST_CIRCLE = 8
local graph = {}
for _, need in ipairs(needs) do
  local source, target = need[1], defined[need[2]]
  if target and target ~= source and room_of(source) and room_of(source) == room_of(target) then
    graph[source] = graph[source] or {}
    graph[source][target] = true
  end
end
local index, low, on_stack, stack, count = {}, {}, {}, {}, 0
local large = {}
local function visit(v)
  count = count + 1
  index[v], low[v], on_stack[v] = count, count, true
  stack[#stack + 1] = v
  for w in pairs(graph[v] or {}) do
    if not index[w] then visit(w) low[v] = math.min(low[v], low[w])
    elseif on_stack[w] then low[v] = math.min(low[v], index[w]) end
  end
  if low[v] ~= index[v] then return end
  local members, w = {}, nil
  repeat
    w = table.remove(stack)
    on_stack[w] = nil
    members[#members + 1] = w
  until w == v
  table.sort(members)
  if #members > MOST_CIRCLE then large[#large + 1] = #members .. " files: " .. table.concat(members, " ") end
end
for v in pairs(graph) do if not index[v] then visit(v) end end
report("no circle within a room has more than " .. MOST_CIRCLE .. " files", large)

-- Sizes: lines of a file, columns, lines of a function, its parameters unless the MPI gives them.
local MOST = { lines = 500, columns = 120, body = 60, parameters = 7 }
local sizes, words, conditions, opens, calls = {}, {}, {}, {}, {}
local FORBIDDEN = { "The same", "As ", "What", "One that", "Of ", "True of", "False of" }
local CONDITION = { "OPEN_MPI", "OMPI_", "MPICH" }
local CONDITION_FILES = { ["runtime/base/mpi_abi.h"] = true, ["runtime/base/mpi_workarounds.h"] = true }
-- file_open and file_make trust no name: others may have made the file. The rest opens /proc, the compiler's new
-- folder, or programs to look at.
local OPEN = { "open", "openat", "fopen", "creat", "shm_open", "mkstemp" }
local OPEN_FILES = {
  ["runtime/base/file.c"] = true, ["runtime/base/output.c"] = true, ["runtime/base/job_id.c"] = true,
  ["runtime/device/host_range.c"] = true, ["runtime/hostpack/host_compiler.c"] = true,
}
-- The driver and NVRTC are called by the table of device/gpu_runtime.h: the files behind it alone name symbols of theirs.
local RUNTIME_FILES = {
  ["runtime/api/stridec.h"] = true,   -- for programs without the library
  ["runtime/device/cuda.c"] = true, ["runtime/device/driver.h"] = true, ["runtime/device/nvrtc.c"] = true,
  ["runtime/device/nvrtc.h"] = true, ["runtime/device/nvrtc_compile.c"] = true,
}
local function names_runtime(line)
  return line:match('^#include ["<].*nvrtc%.h[">]') or line:match("_CALLS%(%u") or line:match('dlsym%(.*"cu%u')
end
local function by_mpi(path, name)   -- calls of the MPI and what stands for them have the MPI's parameters
  return path:match("^runtime/interpose/") or path:match("^runtime/api/") or path:match("_calls%.c$") or name:match("^call_")
end
for _, path in ipairs(lines_of("ls runtime/*/*.[ch] runtime/*/*.lua")) do
  local n, begun, name, head = 0, nil, nil, nil
  for line in io.lines(path) do
    n = n + 1
    local function wrong(list, what) list[#list + 1] = path .. ":" .. n .. ": " .. what end
    if utf8.len(line) and utf8.len(line) > MOST.columns then wrong(sizes, utf8.len(line) .. " columns") end
    local comment = line:match("/%*%s*(.*)") or (path:match("%.lua$") and line:match("^%s*%-%-%s*(.*)"))
    for _, word in ipairs(FORBIDDEN) do
      if comment and line:match("^%s*/%*") and comment:sub(1, #word) == word then wrong(words, comment) end
    end
    if path:match("%.[ch]$") then
      for _, word in ipairs(CONDITION) do
        if line:match("^#%s*e?l?if") and line:find(word, 1, true) and not CONDITION_FILES[path] then
          wrong(conditions, line)
        end
      end
      if names_runtime(line) and not RUNTIME_FILES[path] then wrong(calls, line) end
      for _, word in ipairs(OPEN) do
        local first = line:match("%f[%w_]" .. word .. "%(([%w_\"%->]+)")
        if first and first ~= "struct" and not OPEN_FILES[path] then wrong(opens, line) end
      end
      if line:match("^[%a_].*%(") and not line:match(";$") then head, name = line, line:match("([%w_]+)%(") 
      elseif head and not line:match("^[{#}]") then head = head .. line
      elseif head and line == "{" then
        local arguments = head:match("%((.*)%)") or ""
        local _, commas = arguments:gsub("%b()", ""):gsub(",", "")
        if commas + 1 > MOST.parameters and not by_mpi(path, name) then
          wrong(sizes, name .. " has " .. commas + 1 .. " parameters")
        end
        begun, head = n, nil
      elseif begun and line == "}" then
        if n - begun - 1 > MOST.body then wrong(sizes, name .. " has " .. n - begun - 1 .. " lines") end
        begun = nil
      end
    end
  end
  if n > MOST.lines then sizes[#sizes + 1] = path .. ": " .. n .. " lines" end
end
report("files, lines and functions of runtime/ are short", sizes)
report("comments of runtime/ begin with what they are about", words)
report("conditions on the MPI stand in two files", conditions)
report("files are opened by base/file.h and base/output.h", opens)
report("the GPU's driver and compiler are named behind device/gpu_runtime.h", calls)
results.exit()
