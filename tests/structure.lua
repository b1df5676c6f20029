-- structure.lua: `lua5.4 tests/structure.lua BUILD`: whether runtime/ keeps to the order of its rooms, which the table
-- in runtime/README.md gives: a room includes, and calls, only rooms above it in the table. gen/ and spec/ know nothing
-- of runtime/. Includes are read from the sources, calls from the objects that BUILD holds. Exit status 1 where
-- something runs against it.
local build = arg[1] or error("usage: structure.lua BUILD")

local function lines_of(command)
  local p = assert(io.popen(command))
  local lines = {}
  for line in p:lines() do lines[#lines + 1] = line end
  p:close()
  return lines
end

local rank, rooms = {}, 0
for line in io.lines("runtime/README.md") do
  local room = line:match("^| `([a-z]+)/` |")
  if room then rooms = rooms + 1; rank[room] = rooms end
end

local failed = false
local function report(what, wrong)
  table.sort(wrong)
  print((#wrong == 0 and "ok " or "not ok ") .. what)
  for _, line in ipairs(wrong) do print("    " .. line) end
  failed = failed or #wrong > 0
end

local sources = lines_of("ls runtime/*/*.[ch] gen/*.[ch] spec/*.[ch]")
local function room_of(path) return path:match("^runtime/([a-z]+)/") end

-- Folders without a row, and files outside of all.
local astray = {}
for _, path in ipairs(lines_of("ls -d runtime/*")) do
  local name = path:match("^runtime/(.*)$")
  if name ~= "README.md" and not rank[name] then astray[#astray + 1] = path .. ": no room of runtime/README.md" end
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
os.exit(not failed)
