-- calls.lua STRIDEC MPICC: every function of the MPI's header that takes a choice buffer, a datatype or a request is in
-- the table of `stridec doctor --calls`, once and with a reason, or excepted here with one. A line "ok" or "not ok" a
-- check.
local stridec, mpicc = arg[1], arg[2] or "mpicc"
package.path = "tests/?.lua;" .. package.path
local results = require "results"
local check, output = results.check, results.output

-- Not in the table, and why that is right.
local EXCEPTIONS = {
  ["^MPI_Abi_"] = "values of Fortran's",
  ["^MPI_T_"] = "tools' interface: control and performance variables, events",
  ["_[cf]2[cf]$"] = "converts handles",
  ["_f082[cf]$"] = "converts handles", ["_[cf]2f08$"] = "converts handles",
  ["_toint$"] = "converts handles", ["_fromint$"] = "converts handles",
  ["_[gs]et_attr$"] = "attributes: void * is the application's own value",
  ["^MPI_Attr_[gp][eu]t$"] = "attributes", ["_create_keyval$"] = "attributes", ["^MPI_Keyval_create$"] = "attributes",
  ["^MPI_Register_datarep"] = "void * is handed to the application's own functions",
}

local function excepted(name)
  for pattern in pairs(EXCEPTIONS) do
    if name:find(pattern) then return true end
  end
end

-- The functions that the headers declare, with their arguments in one line: MPI's, persistent collectives that have
-- names of Open MPI 4.1's, and MPICH's messages in the order of streams.
local function declared()
  local file = os.tmpname()
  local f = assert(io.open(file, "w"))
  f:write "#include <mpi.h>\n#if defined OPEN_MPI && __has_include(<mpi-ext.h>)\n#include <mpi-ext.h>\n#endif\n"
  f:close()
  local text = output(("%s -E -P -x c %s"):format(mpicc, file)):gsub("%s+", " ")
  os.remove(file)
  local list = {}
  for type, name, arguments in text:gmatch "([%w_]+) (MPIX?_[%w_]+) ?(%b())" do
    local wanted = name:find "^MPI_" or name:find "_init$" or name:find "_enqueue" or name:find "^MPIX_Stream_"
    if type == "int" and wanted then list[name] = arguments end
  end
  for name in pairs(list) do
    if name:find "^MPIX_" and list[name:gsub("^MPIX", "MPI")] then list[name] = nil end
  end
  return list
end

local function of_interest(arguments)
  return arguments:find "void ?%*" or arguments:find "%f[%w_]MPI_Datatype%f[^%w_]"
    or arguments:find "%f[%w_]MPI_Request%f[^%w_]"
end

local rows, twice, unsaid = {}, {}, {}
for line in output(("%q doctor --calls"):format(stridec)):gmatch "[^\n]+" do
  local name, rest = line:match "^(MPIX?_[%w_]+)%s+(.+)$"
  assert(name, line)
  if rows[name] then twice[#twice + 1] = name end
  rows[name] = rest
  if not (rest:find "^accelerated%s+%w" or rest:find "^staged%s+%w" or rest:find "^passed through%s+%w") then
    unsaid[#unsaid + 1] = line
  end
end

local functions, missing, unknown, total = declared(), {}, {}, 0
for name, arguments in pairs(functions) do
  if of_interest(arguments) then
    total = total + 1
    if not rows[name] and not excepted(name) then missing[#missing + 1] = name .. arguments end
  end
end
for name in pairs(rows) do
  if not functions[name] then unknown[#unknown + 1] = name end
end
table.sort(missing)

check("the header was read", total > 150 and functions.MPI_Send and {} or { total .. " functions" })
check(("each of %d functions is in the table"):format(total), missing)
check("each row is a function that the MPI has", unknown)
check("no function twice", twice)
check("each says how, and why", unsaid)
results.exit()
