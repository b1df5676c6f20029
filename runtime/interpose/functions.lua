-- functions.lua: the rows of calls.lua as C functions, those that the MPI declares. Called with the paths of calls.lua
-- and of a file of the names that the MPI declares, one a line. Returns the functions, the rows that are passed as they
-- are, the set of those names, and stub_args, which declares a stub's arguments.
local calls, declared = ...

local has = {}
for name in io.lines(declared) do has[name] = true end

-- The C declarations of a role, the second one for large forms; %s is the name.
local ROLES = {
  ["in"] = { "const void *%s" }, out = { "void *%s" }, inout = { "void *%s" },
  count = { "int %s", "MPI_Count %s" }, size = { "int %s", "MPI_Count %s" },
  bytes = { "MPI_Aint %s", "MPI_Count %s" },
  counts = { "const int %s[]", "const MPI_Count %s[]" },
  displs = { "const int %s[]", "const MPI_Aint %s[]" }, adispls = { "const MPI_Aint %s[]" },
  unit = { "int %s", "MPI_Aint %s" }, partitions = { "partition_list %s" },
  position = { "int *%s", "MPI_Count *%s" }, aposition = { "MPI_Aint *%s", "MPI_Count *%s" },
  type = { "MPI_Datatype %s" }, types = { "const MPI_Datatype %s[]" },
  comm = { "MPI_Comm %s" }, root = { "int %s" }, info = { "MPI_Info %s" },
  request = { "MPI_Request *%s" }, requests = { "MPI_Request %s[]" },
  status = { "MPI_Status *%s" }, statuses = { "MPI_Status %s[]" },
}

-- "in*@root sendbuf" -> { role = "in", marks = "*@root", name = "sendbuf", text = C declaration }
local function argument(text, large)
  local role, marks, name = text:match "^(%l+)([*~#+=>?]*@?%l*) ([%w_]+)$"
  if role and ROLES[role] then
    local declarations = ROLES[role]
    local c = declarations[large and #declarations or 1]
    return { role = role, marks = marks, name = name, text = c:format(name), wide = large and #declarations > 1 }
  end
  return { role = "other", name = assert(text:match "([%w_]+)%[?%]?$", text), text = text }
end

local function split(arguments, more, large)
  local list = {}
  local all = arguments .. (arguments ~= "" and more ~= "" and ", " or "") .. more
  for text in all:gmatch "[^,]+" do list[#list + 1] = argument(text:match "^%s*(.-)%s*$", large) end
  return list
end

-- The forms of a row's name, with the arguments that each adds and what keeps its buffers.
local FORMS = {
  { word = "blocking", name = function(n) return n end, more = "" },
  { word = "nonblocking", name = function(n) return "I" .. n:lower() end, more = "request request", keep = "request" },
  { word = "persistent", name = function(n) return n .. "_init" end, more = "info info, request request",
    keep = "persistent" },
}

-- Returns the functions of a row that the MPI has: { name =, symbol =, row =, args =, keep = }.
-- Workaround (Open MPI 4.1): persistent collectives are called MPIX_. So are `extension` rows.
local function functions(row)
  local list = {}
  local forms = row.forms or "blocking"
  for _, form in ipairs(FORMS) do
    if forms:find("%f[%l]" .. form.word) then
      local more = forms == "persistent of one" and "request request" or form.more
      for _, large in ipairs { false, true } do
        local can = row.large or (row.how ~= "own" and row.how ~= "poll" and not row.small)
        local name = form.name(row.name) .. (large and "_c" or "")
        local symbol = has["MPI_" .. name] and "MPI_" .. name
          or (row.extension or form.keep == "persistent") and has["MPIX_" .. name] and "MPIX_" .. name
        if (not large or can) and symbol then
          list[#list + 1] = { name = name, symbol = symbol, row = row, args = split(row.arguments, more, large),
            large = large, keep = form.keep or row.keep }
        end
      end
    end
  end
  return list
end

local present, passed = {}, {}
for _, row in ipairs(dofile(calls)) do
  if row.how == "passed" then
    passed[#passed + 1] = row
  else
    for _, f in ipairs(functions(row)) do present[#present + 1] = f end
  end
end

local stacked = '#ifdef __x86_64__\n#define SEVENTH volatile\n#else   /* AArch64 has eight registers for them */\n' ..
                '#define SEVENTH\n#endif\n'
-- Declares the arguments of a stub that mostly jumps on. Those on the stack are volatile, or the compiler would load
-- and store them again. Those in registers are not: under another MPI, whose handles are longer, they would be cut.
local function stub_args(list)
  local texts = {}
  for i, a in ipairs(list) do
    local before, name, brackets = a.text:match "^(.-)([%w_]+)(%[?%]?)$"
    local keep = i <= 8 and "SEVENTH" or "volatile"
    texts[i] = i <= 6 and a.text or brackets == "" and before .. keep .. " " .. name
      or before .. name .. "[" .. keep .. "]"
  end
  return table.concat(texts, ", ")
end

-- Notes a persistent message or neighbourhood, which may be started in stream order (protocol/channel.h,
-- collective/neighbor_spread.h). `call` gives the result.
local function noted_call(f, call)
  if f.row.edges and f.keep == "persistent" then return ("neighbor_spread_note(%s, &o, request)"):format(call) end
  if not f.name:find "^[BRS]*[Ss]end_init" and not f.name:find "^Recv_init" then return call end
  local peer, sends = "dest", f.name:find "end_init" ~= nil
  if not sends then peer = "source" end
  return ("channel_note(%s,\n        &(struct channel_call){buf, count, datatype, %s, tag, comm, %s}, request)")
    :format(call, peer, sends)
end

return present, passed, has, stub_args, stacked, noted_call
