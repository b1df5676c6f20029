-- observed.lua: returns a function for stubs.lua that writes observed_NAME, which serves a call while calls are
-- observed (observed.h). A function of its own, so that others pay nothing for it.
local TEMPLATE = [[
ACT int observed_$name(const struct next *next$more)
{
    struct observed o;
    observed_begin(&o, &(struct observed_call){.name = "$symbol", $members});
    int rc = call_$name(next$pass);
    observed_end(&o, rc);
    interpose_leave();
    return rc;
}]]

local BUFFER = { ["in"] = true, out = true, inout = true }

-- Returns the names of the type and the count that describe the call's own data, and the last buffer before them. Those
-- that are significant at the root alone, or that an operation may not use, are none.
local function data_of(args, named)
  local type, count, buffer
  if named.target_datatype then return "target_datatype", "target_count" end
  for _, a in ipairs(args) do
    if BUFFER[a.role] and not type then buffer = a end
    local counts = buffer and not buffer.marks:find("*@", 1, true) and not type
    if counts and a.role == "count" then count = a.name end
    if counts and a.role == "type" then type = a.name end
  end
  return type, count, type and buffer.name
end

-- Returns the members of struct observed_call. A type is told only where the MPI has to look at it, too.
local function members(f)
  local named, texts, used = {}, {}, {}
  local function add(text, ...) texts[#texts + 1] = text:format(...) end
  for _, a in ipairs(f.args) do named[a.name] = true end
  local peer = named.dest and "dest" or named.source and "source" or named.target_rank and "target_rank"
    or named.root and "root"
  local type, count, buffer = data_of(f.args, named)
  if buffer then used[1] = buffer .. " != MPI_IN_PLACE" end
  if peer then used[#used + 1] = peer == "root" and "root >= 0" or peer .. " != MPI_PROC_NULL" end
  if not type then add ".type = MPI_DATATYPE_NULL"
  elseif #used == 0 then add(".type = %s", type)
  else add(".type = %s ? %s : MPI_DATATYPE_NULL", table.concat(used, " && "), type) end
  add(".count = %s", named.partitions and "-1" or count or f.row.small and "1" or "-1")
  add(".peer = %s", peer or "TRACE_NO_PEER")
  if named.requests then add(".requests = %s", named.incount and "incount" or "count") end
  if named.dest and not f.name:find "_init$" then add ".sends = true" end
  return table.concat(texts, ", ")
end

return function(f, declarations, names)
  if f.row.when == "always" then return ("#define observed_%s call_%s   /* never is */"):format(f.name, f.name) end
  return (TEMPLATE:gsub("%$(%w+)", {
    name = f.name, symbol = f.symbol, members = members(f),
    more = declarations == "" and "" or ", " .. declarations, pass = names == "" and "" or ", " .. names,
  }))
end
