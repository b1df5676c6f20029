-- stubs.lua CALLS HAS next.h|stubs.c: writes to stdout the table of next functions, or the exported stubs. CALLS is
-- calls.lua; HAS is a file of the names that the MPI declares, one a line.
local what = arg[3]
local functions = assert(loadfile((arg[0]:gsub("stubs.lua$", "functions.lua"))))
local present, _, has, stub_args, stacked, noted_call = functions(arg[1], arg[2])
local observed_call = dofile((arg[0]:gsub("stubs.lua$", "observed.lua")))

local BUFFER = { ["in"] = true, out = true, inout = true }

local function join(list, field)
  local texts = {}
  for i, a in ipairs(list) do texts[i] = a[field] end
  return table.concat(texts, ", ")
end

local function emit(text, values) io.write((text:gsub("%$(%w+)", values))) end

local function has_any(args, names)
  for _, a in ipairs(args) do
    if names[a.name] then return true end
  end
  return false
end

-- Return true for functions that may receive, or send, an RTS (runtime/protocol/rts.h).
local function takes_messages(args) return has_any(args, { source = true, message = true }) end
local function makes_messages(args) return has_any(args, { dest = true }) end
local no_edges = { persistent = "!neighbor_may_vote()" }
local function by_edges(f) return f.row.edges and (no_edges[f.keep] or "!node_armed()") end
local function exchanges(f) return f.row.exchange end
-- Returns true for those of which exchange_ended is to be told.
local function counted(f) return exchanges(f) and f.keep ~= "request" end

-- Returns true for collectives that move data; stridec may pack their host buffers (runtime/collective/args_host.c).
local function collects(f)
  return f.row.how == "packed" and not takes_messages(f.args) and not makes_messages(f.args)
    and has_any(f.args, { comm = true })
end

-- Serves a call by filter_pack_judge (datatype/type_filter.h): passes it to the MPI, packs here, or goes on.
-- *position advances first, so that host_pack_serve is a jump and no registers are saved.
local QUICK = [[
    struct layout *known = NULL;
    switch (filter_pack_judge($way, datatype, $count, $room, &known)) {
    case FILTER_PASS:
        return $next.$name($names);
    case FILTER_SERVE:
        if (!position || *position < 0 || !$packed || comm == MPI_COMM_NULL) break;
        if (known->size * $count > (int64_t)$room - *position) break;
        const char *const at = (const char *)$packed + *position;
        *position += (__typeof__(*position))($count * known->size);
        return host_pack_serve(known, $way, $user, $count, at);
    case FILTER_CHECK:
        break;
    }
]]
local function quick(f, next, names)
  return (QUICK:gsub("%$(%w+)", setmetatable({ next = next, name = f.name, names = names }, { __index = f.row.quick })))
end

-- Serves such calls in a process with a driver, by another function: other processes save no registers for it.
local HOSTED = [[
ACT_OFTEN int hosted_$name($handed)
{
    if (!filter_pack_on_host(datatype, $user, $count, $packed)) return act_$name($names);
$quick    return act_$name($names);
}
ACT_OFTEN int hosted_P$name($handed)
{
    if (!filter_pack_on_host(datatype, $user, $count, $packed)) return act_P$name($names);
$pquick    return act_P$name($names);
}
]]

local stub_begin, pass_lists, polls   -- defined below

-- Asks whether the ranks of a node do the call, or vote on it (collective/exchange.h). A function of its own: stubs of
-- processes without other ranks on the node save no registers for it.
local ARMED = [[
ACT_OFTEN int armed_$p$name($declarations)
{
    exchange_counted = false;
    const int64_t bytes = $bytes;
    if (bytes >= EXCHANGE_LEAST && !caller_is_mpi(__builtin_return_address(0)) &&
        exchange_due(EXCHANGE_$kind, EXCHANGE_$form, comm, bytes))
        return enter_$name(&$next, $names);
$begin    return act_$p$name($names);
}
]]
-- Before a call that ends only when all ranks have begun it: a vote may take its place. Unarmed, nothing is called
-- before the MPI: another family's handles are wider than `comm`.
local SYNCS = "node_armed() ? exchange_barrier(comm, caller_is_mpi(__builtin_return_address(0)), %s.Barrier) :"
local FORM = { none = "BLOCKING", request = "NONBLOCKING", persistent = "PERSISTENT" }
local function exchange_asked(f, p, next, names)
  local begin = stub_begin(f, next, names)
  return (ARMED:gsub("%$(%w+)", { p = p, name = f.name, next = next, names = names, kind = f.row.name:upper(),
    form = FORM[f.keep or "none"], declarations = join(f.args, "text"),
    bytes = ("exchange_possible(comm) ? %s : 0"):format(f.row.exchange == "LISTS" and "EXCHANGE_LISTS"
      or "exchange_" .. f.row.exchange),
    begin = counted(f) and begin:gsub("return (next_.*%));", "return exchange_ended(comm, %1);") or begin }))
end

local function each(template, chosen)
  for _, f in ipairs(present) do
    if chosen(f) then
      local declarations, names = join(f.args, "text"), join(f.args, "name")
      local moved = f.row.quick or {}
      emit((template:gsub("%$hosted\n", f.row.quick and HOSTED or "")), {
        observed = observed_call(f, declarations, names),
        name = f.name, symbol = f.symbol, names = names,
        upper = (f.row.when or (collects(f) or exchanges(f)) and "host"
          or (takes_messages(f.args) or makes_messages(f.args) or by_edges(f)) and "receive" or "device"):upper(),
        declarations = declarations == "" and "void" or declarations,
        handed = declarations == "" and "void" or stub_args(f.args),
        more = declarations == "" and "" or ", " .. declarations,
        pass = names == "" and "" or ", " .. names,
        begin = stub_begin(f, "next_mpi", names), pbegin = stub_begin(f, "next_pmpi", names),
        lists = pass_lists(f, "next_mpi", names), plists = pass_lists(f, "next_pmpi", names),
        syncs = f.row.syncs and SYNCS:format "next_mpi" or "", psyncs = f.row.syncs and SYNCS:format "next_pmpi" or "",
        armed = exchanges(f) and exchange_asked(f, "", "next_mpi", names) or "",
        parmed = exchanges(f) and exchange_asked(f, "P", "next_pmpi", names) or "",
        asks = exchanges(f) and ("    if (node_armed()) return armed_%s(%s);\n"):format(f.name, names) or "",
        pasks = exchanges(f) and ("    if (node_armed()) return armed_P%s(%s);\n"):format(f.name, names) or "",
        act = pass_lists(f, "", "") ~= "" and "ACT_OFTEN" or "ACT",
        quick = f.row.quick and quick(f, "next_mpi", names), pquick = f.row.quick and quick(f, "next_pmpi", names),
        user = moved.user, count = moved.count, packed = moved.packed,
      })
    end
  end
end
local function any() return true end
function polls(f) return f.row.how == "poll" end
local function acts(f) return not polls(f) end

-- Returns a buffer with the arguments that describe it: the next count, displacements and type after it.
local function buffer_args(args, i)
  local o = { buffer = args[i] }
  for k = i + 1, #args do
    local role = args[k].role
    if (role == "count" or role == "counts" or role == "bytes") and not o.count then o.count = args[k] end
    if (role == "displs" or role == "adispls") and not o.displs then o.displs = args[k] end
    if (role == "type" or role == "types") and not o.type then o.type = args[k] end
    if BUFFER[role] and o.count then break end
  end
  return o
end

-- Returns the number of the argument that receives a message.
local function receives_at(args)
  for i, a in ipairs(args) do if a.role == "out" or a.role == "inout" then return i end end
end

-- Returns the condition under which stridec has nothing to do, as far as the arguments tell, or "".
local function nothing_to_do(f)
  local args, checks, buffers, message = f.args, {}, 0, f.row.how == "packed"
  for _, a in ipairs(args) do
    message = message or f.row.how == "own" and (a.name == "dest" or a.name == "source" or a.name == "message")
    if a.role == "types" or a.name == "partitions" or a.name == "fh" then return "" end
    buffers = buffers + (BUFFER[a.role] and 1 or 0)
  end
  for i, a in ipairs(args) do
    if BUFFER[a.role] then
      local o = buffer_args(args, i)
      local check = not o.type and ("host_range_has(%s)"):format(a.name)
        or ("host_%s(%s, %s)"):format(message and "message" or "buffer", a.name, o.type.name)
      if f.row.how ~= "own" and buffers > 1 then check = ("(%s == MPI_IN_PLACE || %s)"):format(a.name, check) end
      checks[#checks + 1] = check
    end
  end
  return table.concat(checks, " && ")
end

-- Returns that condition for messages in a process without a driver. stridec may serve derived types, and a receive may
-- get an RTS; MPI_Bsend never sends one.
local function nothing_in_host(f)
  local checks = {}
  for i, a in ipairs(f.args) do
    local o = BUFFER[a.role] and buffer_args(f.args, i)
    local ask = a.role == "in" and makes_messages(f.args) and not f.name:lower():find "bsend" and "send"
      or a.role ~= "in" and takes_messages(f.args) and "receive"
    if o and ask then checks[#checks + 1] = ("filter_%s_ignores(%s, %s)"):format(ask, o.type.name, o.count.name) end
  end
  return #checks > 0 and table.concat(checks, " && ") or "true"
end

local function filter_part(o)
  if o.buffer.role == "in" then return "FILTER_OUT" end
  return (o.count.role == "counts" or o.buffer.marks:find "[*~#+=]") and "FILTER_MANY" or "FILTER_ONE"
end

-- Returns that condition for collectives in a process without a driver.
local function nothing_to_pack(f)
  local checks = {}
  for i, a in ipairs(f.args) do
    local o = BUFFER[a.role] and buffer_args(f.args, i)
    if o and o.type.role == "types" then return "filter_all_is_ignored()" end
    if o then
      checks[#checks + 1] = ("filter_collective_ignores(%s, %s, %s)"):format(filter_part(o), o.type.name,
        o.count.role == "counts" and "FILTER_COUNTS" or o.count.name)
    end
  end
  return table.concat(checks, " && ")
end

-- Returns code, run after the stub, that passes collectives with a list of counts to the MPI by that condition.
function pass_lists(f, next, names)
  local checks, any = {}, false
  if not collects(f) or f.large or by_edges(f) then return "" end
  for i, a in ipairs(f.args) do
    local o = BUFFER[a.role] and buffer_args(f.args, i)
    if o then
      local list = o.count.role == "counts"
      local ask = not list
        and ("filter_collective_ignores(%s, %s, %s)"):format(filter_part(o), o.type.name, o.count.name)
        or ("filter_list_ignores(%s, ranks, %s, %s, %s)"):format(filter_part(o), o.count.name,
          o.type.role == "types" and "MPI_DATATYPE_NULL" or o.type.name,
          o.type.role == "types" and o.type.name or "NULL")
      if a.marks:find "@root" then ask = ("(!filter_at_root(root, comm) || %s)"):format(ask) end
      checks[#checks + 1] = ("(%s == MPI_IN_PLACE || %s)"):format(a.name, ask)
      any = any or list
    end
  end
  if not any then return "" end
  local down = ("%s.%s(%s)"):format(next, f.name, names)
  return ("    const int ranks = driver_absent() ? filter_ranks(comm) : -1;\n" ..
    "    if (ranks >= 0 && %s)\n        return %s;\n"):format(table.concat(checks, " && "),
    counted(f) and ("exchange_ended(comm, %s)"):format(down) or down)
end

-- Returns the first lines of a stub. They pass a call to the MPI by a jump. A jump does not change the arguments,
-- which have other types under another MPI. After a blocking receive, freed receives may have completed too.
function stub_begin(f, next, names)
  local check, received = nothing_to_do(f), false
  if f.row.when == "pending" then check = "!interpose_pending()"
  elseif f.row.when == "start" then check = "!interpose_pending() && !receive_gate_on()"
  elseif f.row.when == "kept" then check = "!interpose_has_requests()"
  elseif f.row.how == "packed" and takes_messages(f.args) then check = "driver_absent() && !rts_armed()"
  elseif f.row.when == "always" then return ""
  elseif f.row.when == "node" then check = "!node_armed()"
  elseif f.row.quick then
    return ("    if (!driver_absent()) return hosted_%s%s(%s);\n%s"):format(next == "next_pmpi" and "P" or "", f.name,
      names, quick(f, next, names))
  elseif f.row.when == "host" then
    check = check == "" and f.row.unless or ("(driver_absent() || (%s)) && %s"):format(check, f.row.unless)
  elseif collects(f) then
    check = ("driver_absent() %s %s"):format(check == "" and "&&" or "?",
      nothing_to_pack(f) .. (check == "" and "" or " : " .. check))
    if by_edges(f) then check = ("%s && (%s)"):format(by_edges(f), check) end
  elseif check == "" then
    check = "driver_absent()" .. (takes_messages(f.args) and not receives_at(f.args) and " && !rts_armed()" or "")
  else
    local into = takes_messages(f.args) and receives_at(f.args)
    local count = into and buffer_args(f.args, into).count
    if count then check = ("rts_ignore(%s) && %s"):format(count.name, check) end
    if f.name:find "end_init" then check = "false" end   -- noted (noted_call)
    if into or makes_messages(f.args) then check = ("driver_absent() ? %s : %s"):format(nothing_in_host(f), check)
    else check = "driver_absent() || " .. (check:find "&&" and "(" .. check .. ")" or check) end
    if has_any(f.args, { target_rank = true }) then check = ("!window_owned_any() && (%s)"):format(check) end
    if by_edges(f) then check = ("%s && (%s)"):format(by_edges(f), check) end
  end
  for _, a in ipairs(f.args) do
    received = received or a.role == "status"
    if a.role == "request" then received = false break end
  end
  local down = ("%s.%s(%s)"):format(next, f.name, names)
  if f.row.how ~= "own" or not received then return ("    if (%s) return %s;\n"):format(check, down) end
  return ("    if (%s) {\n        int rc = %s;\n        interpose_poll();\n        return rc;\n    }\n")
    :format(check, down)
end

local WAYS = { ["in"] = "ARG_IN", out = "ARG_OUT", inout = "ARG_INOUT" }
local MARKS = { ["*"] = "ARG_RANKS", ["~"] = "ARG_NEIGHBORS", ["+"] = "ARG_SUM", ["="] = "ARG_MINE",
  ["#"] = "ARG_GROUP", [">"] = "ARG_AFTER",
  ["?"] = "ARG_PARTIAL", ["@root"] = "ARG_AT_ROOT", ["@leaf"] = "ARG_AT_LEAVES", ["@bcast"] = "ARG_BCAST" }

local function args_text(o, flat)
  local flags = { WAYS[o.buffer.role], flat and "ARG_FLAT" or nil }
  for mark in o.buffer.marks:gmatch "[*~#+=>?]" do flags[#flags + 1] = MARKS[mark] end
  local at = o.buffer.marks:match "@%l+"
  if at then flags[#flags + 1] = MARKS[at] end
  local fields = { (".flags = %s"):format(table.concat(flags, " | ")),
    (".buf = (void *)(uintptr_t)%s"):format(o.buffer.name) }
  local function field(text, ...) fields[#fields + 1] = text:format(...) end
  if not o.count then field(".count = 1")
  elseif o.count.role == "counts" then field(".counts = %s, .counts_wide = %s", o.count.name, o.count.wide and 1 or 0)
  else field(".count = %s", o.count.name) end
  if o.displs then
    field(".displs = %s, .displs_wide = %s", o.displs.name, (o.displs.wide or o.displs.role == "adispls") and 1 or 0)
  end
  if not o.type or (o.count and o.count.role == "bytes") then field(".type = MPI_BYTE")
  elseif o.type.role == "types" then field(".types = %s", o.type.name)
  else field(".type = %s", o.type.name) end
  return "        { " .. table.concat(fields, ", ") .. " },\n"
end

local CLOSE = {
  request = "args_keep(&o, rc, request)",
  persistent = "args_persist(&o, rc, request)",
  read = "args_keep_read(&o, rc, request, win, target_rank)",
  window = "args_keep_window(&o, rc, win, target_rank)",
  file = "args_keep_file(&o, rc, fh)",
}

local BY_EDGES = {
  none = "    if (neighbor_blocking_take(&o)) return neighbor_blocking_run(&o);\n",
  request = "    if (neighbor_nonblocking_take(&o)) return neighbor_nonblocking_make(&o, request, false);\n",
  persistent = "    if (neighbor_spread_take(&o)) return neighbor_nonblocking_make(&o, request, true);\n",
}

local BY_EXCHANGE = "    if (exchange_take(&o)) return exchange_run(&o, %s);\n"

-- Writes a call that makes a communicator, whose ranks then vote. So it may wait for all ranks.
local function write_vote(f)
  emit([[

int call_$name(const struct next *next, $declarations)
{
    int rc = next->$name($names);
    if (rc == MPI_SUCCESS) neighbor_topology_vote(*newcomm);
    return rc;
}
]], { name = f.name, declarations = join(f.args, "text"), names = join(f.args, "name") })
end

-- Writes the small form by means of the large one: a workaround (DEGREES_SWAPPED).
local function write_widened(f)
  local names = {}
  for i, a in ipairs(f.args) do
    names[i] = a.role == "counts" and (a.name == "sendcounts" and "w.to" or "w.from") or a.name
  end
  emit([[

int call_$name(const struct next *next, $declarations)
{
    struct wide_counts w;
    if (!wide_counts(&w, comm, sendcounts, recvcounts)) return MPI_ERR_NO_MEM;
    int rc = call_$large(next, $names);
    free(w.to);
    return rc;
}
]], { name = f.name, large = f.name .. "_c", declarations = join(f.args, "text"), names = table.concat(names, ", ") })
end

local function write_call(f)
  local args, buffer_list, texts, down = f.args, {}, {}, {}
  local replaced, names, names_of = {}, {}, {}
  for i, a in ipairs(args) do
    names[a.role], names_of[a.name] = a.name, true
    if BUFFER[a.role] then
      local o = buffer_args(args, i)
      local at = #buffer_list
      buffer_list[#buffer_list + 1], texts[#texts + 1] = o, args_text(o, f.row.flat)
      replaced[a.name] = ("o.of[%d].use"):format(at)
      if f.row.how == "packed" or f.row.flat then
        if o.count.role == "count" then
          replaced[o.count.name] = ("%so.of[%d].use_count"):format(f.large and "" or "(int)", at)
        else replaced[o.count.name] = ("o.of[%d].use_counts"):format(at) end
        if o.displs then replaced[o.displs.name] = ("o.of[%d].use_displs"):format(at) end
        if o.type.role == "types" then replaced[o.type.name] = ("o.of[%d].use_types"):format(at)
        else replaced[o.type.name] = ("o.of[%d].use_type"):format(at) end
      end
    end
  end
  local partial = names.status and not f.keep
  local one_sided = names_of.target_rank
  local message = names_of.dest or names_of.source
  for i, a in ipairs(args) do down[i] = replaced[a.name] or a.role == "status" and partial and "s" or a.name end
  local keep, request = f.keep, f.keep and "request" or "NULL"
  if (f.row.forms or ""):find "persistent of one" then keep = "persistent" end
  local ended = counted(f) and "exchange_ended(comm, next->%s(%s))" or "next->%s(%s)"
  emit([[

int call_$name(const struct next *next, $declarations)
{
    struct args_set o = { .how = $how, .comm = $comm, .root = $root, .n = $n$message$file$later$receives$sends, .of = {
$buffers    } };
$own$edges$kernel    $rc = $open;
    if (rc == ARGS_NONE) return $none;
    if (rc != MPI_SUCCESS) return $unbegun;
$brings    rc = $passed;
    return $close;
}
]], {
    name = f.name, declarations = join(args, "text"), names = join(args, "name"), n = #buffer_list,
    how = f.row.how == "packed" and "ARGS_PACKED" or "ARGS_STAGED",
    comm = names.comm or "MPI_COMM_NULL", root = names.root or "0", buffers = table.concat(texts),
    kernel = f.row.kernel and ("    int rc;\n    if (%s) return rc;\n"):format(f.row.kernel:format(request)) or "",
    rc = f.row.kernel and "rc" or "int rc",
    own = partial and "    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;\n" or "",
    unbegun = counted(f) and "exchange_unbegun(comm, rc)" or "rc",
    passed = ended:format(f.name, table.concat(down, ", ")),
    edges = by_edges(f) and BY_EDGES[f.keep or "none"]
      or exchanges(f) and not f.row.kernel and BY_EXCHANGE:format(request) or "",
    down = table.concat(down, ", "),
    none = noted_call(f, (names_of.source and "args_persist_recv(&o, next->%s(%s), request)" or ended)
      :format(f.name, join(args, "name"))),
    message = message and ", .message = true" or "",
    file = names_of.fh and ", .file = true, .fh = fh" or names_of.win and ", .one_sided = true, .win = win" or "",
    brings = names_of.target_datatype and receives_at(args)
      and "    args_bound_read(&o, target_count, target_datatype);\n" or "",
    later = f.keep and (f.row.forms or ""):find "persistent$" and ", .later = true" or "",
    sends = keep == "persistent" and f.name:find "^[RS]?[Ss]end_init"
      and (", .sends = true%s, .dest = dest"):format(f.name:find "^Ssend" and ", .synchronous = true" or "") or "",
    receives = names_of.source and (", .receives = true, .source = source, .tag = %s")
      :format(names_of.recvtag and "recvtag" or "tag") or "",
    -- A read from MPI_PROC_NULL must not change the buffer.
    open = one_sided and "target_rank == MPI_PROC_NULL ? ARGS_NONE : args_open(&o)" or "args_open(&o)",
    close = noted_call(f, CLOSE[keep] or ("args_close(&o, rc, %s)"):format(partial and "s" or "NULL")),
  })
end

-- Workaround (MPICH 4.0): the list is declared without const.
local PARTITION_LIST = "typedef __typeof__(_Generic(&MPI_Pready_list, int (*)(int, int *, MPI_Request): (int *)0,\n" ..
  "    default: (const int *)0)) partition_list;\n\n"

io.write("/* made by runtime/interpose/stubs.lua from runtime/interpose/calls.lua */\n")
if what == "next.h" then
  io.write("#ifndef STRIDEC_NEXT_H\n#define STRIDEC_NEXT_H\n#include <mpi.h>\n\n",
           has.MPI_Pready_list and PARTITION_LIST or "",
           "/* The functions that the next library in the chain gives for MPI_X, or for PMPI_X. */\n",
           "struct next {\n")
  each("    int (*$name)($declarations);\n", any)
  io.write("};\n\n/* What the MPI at hand has. */\n")
  each("#define HAVE_$name 1\n", any)
  io.write "\n"
  each("int call_$name(const struct next *next$more);\n", acts)
  io.write("\n#endif\n")
elseif what == "stubs.c" then
  io.write('#include "collective/exchange.h"\n#include "collective/exchange_reduce.h"\n',
           '#include "collective/neighbor_spread.h"\n#include "collective/reduction.h"\n',
           '#include "device/host_range.h"\n#include "interpose/observed.h"\n#include "hostpack/host_pack.h"\n',
           '#include "next.h"\n#include "node/segment.h"\n#include "protocol/channel.h"\n',
           '#include "collective/window.h"\n#include "datatype/type_filter.h"\n#include <dlfcn.h>\n',
           '#include <stdint.h>\n#include <stdlib.h>\n\n',
           "#define ACT static __attribute__((noinline, cold))   /* off the path of calls that go straight down */\n",
           "#define ACT_OFTEN static __attribute__((noinline))\n", stacked, "\n",
           "struct next next_mpi, next_pmpi;\n\n__attribute__((constructor)) static void find_next(void)\n{\n")
  each([[
    *(void **)&next_mpi.$name = dlsym(RTLD_NEXT, "$symbol");
    *(void **)&next_pmpi.$name = dlsym(RTLD_NEXT, "P$symbol");
]], any)
  io.write("}\n")
  for _, f in ipairs(present) do
    local wide = f.row.degrees and not f.large and has["MPI_" .. f.name .. "_c"]
    if wide then
      io.write "\n#ifdef DEGREES_SWAPPED"
      write_widened(f)
      io.write "#else"
    end
    if f.row.how == "packed" or f.row.how == "staged" then write_call(f) end
    if f.row.vote then write_vote(f) end
    if wide then io.write "#endif\n" end
  end
  each([[

$observed
static inline __attribute__((always_inline)) int enter_$name(const struct next *next$more)
{
    const enum entry entry = interpose_enter(WHEN_$upper);
    if (entry == ENTRY_PASS) return next->$name($names);
    if (entry == ENTRY_OBSERVE) return observed_$name(next$pass);
    int rc = call_$name(next$pass);
    interpose_leave();
    return rc;
}
$act int act_$name($declarations)
{
$lists    return enter_$name(&next_mpi$pass);
}
$act int act_P$name($declarations)
{
$plists    return enter_$name(&next_pmpi$pass);
}
$armed$parmed
$hosted
EXPORT int $symbol($handed)
{
$asks$begin    return act_$name($names);
}
EXPORT int P$symbol($handed)
{
$pasks$pbegin    return act_P$name($names);
}
]], acts)
  each([[

EXPORT int $symbol($declarations)
{
    int rc = $syncs next_mpi.$name($names);
    interpose_poll();
    return rc;
}
EXPORT int P$symbol($declarations)
{
    int rc = $psyncs next_pmpi.$name($names);
    interpose_poll();
    return rc;
}
]], polls)
end
