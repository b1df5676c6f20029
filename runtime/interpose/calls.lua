-- calls.lua: the functions of MPI 3.1 and 4.1 that take a choice buffer, a datatype or a request; how stridec serves
-- them. stubs.lua makes from it the stubs of the functions that the MPI declares, and `stridec doctor --calls`.
--
-- A row: { how, name, arguments, ... }. how:
--   own     written by hand: call_NAME, and call_NAME_c if `large` is set; by_hand below explains it
--   packed  made by stubs.lua: typed device buffers travel as packed bytes (args.h)
--   staged  made by stubs.lua: device buffers are copied to host memory of the same layout, which the MPI sees
--   poll    passes to the MPI; then freed receives that have completed are unpacked
--   passed  has no stub; `why` says why
-- when: the condition of an own row. Otherwise the stub passes the call to the MPI.
--   "always"; "device" (the default): the process has loaded a CUDA driver; "node": ranks of the node may get messages;
--   "pending": stridec has records of requests; "start": or receives register (request/receive_gate.h);
--   "kept": or the MPI has persistent receives of its own; "window": or operations on windows are pending;
--   "host": not the expression `unless`, or `quick` decides; with or without a driver
-- forms: which of NAME, INAME (adds a request) and NAME_init (adds an info and a request) exist; "blocking" by default.
-- extension: no MPI standard has the function, which is called MPIX_NAME.
-- large: the form NAME_c exists. All packed and staged rows have it unless they are `small`.
-- as, why: the text of `stridec doctor --calls`, if `how` does not give it.
-- quick: the direction and argument names of rows that filter_pack_judge (datatype/type_filter.h) serves.
-- degrees: the number of counts is the number of neighbors in each direction (DEGREES_SWAPPED, mpi_workarounds.h).
-- keep: what holds the buffers after the call: "request" ("read": for reads from a window), "window" (until the next
--   synchronization) or "file" (until the call NAME with _end for _begin).
-- flat: in a staged row each buffer has its own count and type, which may be replaced.
-- edges: all ranks make the call alike; in a node it goes edge by edge (collective/neighbor_topology.h).
-- exchange: goes zero-copy among the ranks of a node, if these agree (collective/exchange.h): the size of
--   a piece, "bytes(COUNT, TYPE)" or the like of "bytes_at"; "LISTS" where all ranks can't know it. With `kernel` the
--   size of all that is reduced (collective/exchange_reduce.h).
-- kernel: an expression, true if kernels do the call, and then has set rc; %s is the request, or NULL.
-- vote: an own row whose call_NAME stubs.lua makes: after the MPI the ranks of `newcomm` vote on edges.
-- syncs: the call ends only when all ranks have begun it, so a vote may take its place (exchange_barrier).
--
-- Arguments: "ROLE name", or a C declaration. Roles:
--   in out inout  a choice buffer that is read, written or both; its counts, displacements and types are the next such
--                 arguments. Marks after the role: * for each rank of the communicator, ~ for each neighbor,
--                 # for each rank of the own group, + as many as all counts together, = as many as the own rank's
--                 count (in place + or #), > the first rank gets nothing, ? the MPI may fill only a part,
--                 @root significant at the root only, @leaf at the others too (everywhere within one group),
--                 @bcast in at the root and out elsewhere
--   count size    int, in large forms MPI_Count; only count belongs to a buffer
--   counts displs const int[], in large forms const MPI_Count[] and const MPI_Aint[]; adispls always const MPI_Aint[]
--   type types    MPI_Datatype; an array of them
--   unit          a window's unit of displacement; partitions   an array of partition numbers
--   bytes         MPI_Aint, in large forms MPI_Count
--   position      int *, aposition MPI_Aint *; in large forms MPI_Count *
--   comm root info request requests status statuses   as named

local all = "blocking nonblocking persistent"
local rows = {}
local function row(how, name, arguments, more)
  local r = { how = how, name = name, arguments = arguments }
  for k, v in pairs(more or {}) do r[k] = v end
  rows[#rows + 1] = r
end

-- Start, end, datatypes.
row("own", "Init", "int *argc, char ***argv", { when = "always" })
row("own", "Init_thread", "int *argc, char ***argv, int required, int *provided", { when = "always" })
row("own", "Finalize", "", { when = "always" })
row("own", "Abort", "comm comm, int errorcode", { when = "host", unless = "!trace_wanted()", as = "passed",
  why = "the timeline of STRIDEC_TRACE is written first" })
row("own", "Session_init", "info info, MPI_Errhandler errhandler, MPI_Session *session", { when = "always" })
row("own", "Session_finalize", "MPI_Session *session", { when = "always" })
row("own", "Type_commit", "MPI_Datatype *datatype", { when = "host",
  unless = "driver_absent() && !interpose_records()" })
row("own", "Type_free", "MPI_Datatype *datatype", { when = "host",
  unless = "!filter_holds(datatype) && !atomic_load_explicit(&layout_any, memory_order_relaxed)",
  as = "passed", why = "what is known of the handle goes with it" })
row("own", "Type_set_name", "MPI_Datatype datatype, const char *name", { when = "host",
  unless = "!interpose_names()", as = "passed", why = "the statistics show the name" })

-- Packing.
row("own", "Pack", "in inbuf, count incount, type datatype, out outbuf, size outsize, position position, comm comm",
  { large = true, when = "host",
    quick = { way = "KERNEL_PACK", user = "inbuf", count = "incount", packed = "outbuf", room = "outsize" } })
row("own", "Unpack", "in inbuf, size insize, position position, out outbuf, count outcount, type datatype, comm comm",
  { large = true, when = "host",
    quick = { way = "KERNEL_UNPACK", user = "outbuf", count = "outcount", packed = "inbuf", room = "insize" } })
row("staged", "Pack_external",
  "const char datarep[], in inbuf, count incount, type datatype, inout outbuf, bytes outsize, aposition position")
row("staged", "Unpack_external",
  "const char datarep[], in inbuf, bytes insize, aposition position, out? outbuf, count outcount, type datatype")

-- Point to point.
local message = "in buf, count count, type datatype, int dest, int tag, comm comm"
for _, name in ipairs { "Send", "Ssend", "Rsend", "Bsend" } do
  row("own", name, message, { large = true })
  row("own", "I" .. name:lower(), message .. ", request request", { large = true, keep = "request" })
  row("packed", name, message, { forms = "persistent of one", keep = "request" })
end
local received = "out? buf, count count, type datatype, int source, int tag, comm comm"
row("own", "Recv", received .. ", status status", { large = true })
row("own", "Irecv", received .. ", request request", { large = true, keep = "request" })
row("packed", "Recv", received, { forms = "persistent of one", keep = "request" })
row("own", "Mrecv", "out? buf, count count, type datatype, MPI_Message *message, status status", { large = true })
row("own", "Imrecv", "out? buf, count count, type datatype, MPI_Message *message, request request",
  { large = true, keep = "request" })
local both = "in sendbuf, count sendcount, type sendtype, int dest, int sendtag, "
  .. "out? recvbuf, count recvcount, type recvtype, int source, int recvtag, comm comm"
local replaced = "inout buf, count count, type datatype, int dest, int sendtag, int source, int recvtag, comm comm"
row("own", "Sendrecv", both .. ", status status", { large = true })
row("own", "Sendrecv_replace", replaced .. ", status status", { large = true })
row("own", "Isendrecv", both .. ", request request", { large = true, keep = "request" })
row("own", "Isendrecv_replace", replaced .. ", request request", { large = true, keep = "request" })
row("own", "Psend_init", "in buf, int partitions, MPI_Count count, type datatype, int dest, int tag, comm comm, "
  .. "info info, request request", { keep = "request" })
row("own", "Precv_init", "out buf, int partitions, MPI_Count count, type datatype, int source, int tag, comm comm, "
  .. "info info, request request", { keep = "request" })
row("own", "Pready", "int partition, MPI_Request request", { when = "pending" })
row("own", "Pready_range", "int partition_low, int partition_high, MPI_Request request", { when = "pending" })
row("own", "Pready_list", "int length, partitions array_of_partitions, MPI_Request request", { when = "pending" })
row("own", "Parrived", "MPI_Request request, int partition, int *flag", { when = "pending" })

-- Collectives that move data.
row("packed", "Bcast", "inout@bcast buffer, count count, type datatype, root root, comm comm",
  { forms = all, exchange = "bytes(count, datatype)" })
row("packed", "Gather", "in@leaf sendbuf, count sendcount, type sendtype, out*@root recvbuf, count recvcount, "
  .. "type recvtype, root root, comm comm",
  { forms = all, exchange = "bytes_at(root, comm, recvcount, recvtype, sendcount, sendtype)" })
row("packed", "Gatherv", "in@leaf sendbuf, count sendcount, type sendtype, out*@root recvbuf, counts recvcounts, "
  .. "displs displs, type recvtype, root root, comm comm", { forms = all, exchange = "LISTS" })
row("packed", "Scatter", "in*@root sendbuf, count sendcount, type sendtype, out@leaf recvbuf, count recvcount, "
  .. "type recvtype, root root, comm comm",
  { forms = all, exchange = "bytes_at(root, comm, sendcount, sendtype, recvcount, recvtype)" })
row("packed", "Scatterv", "in*@root sendbuf, counts sendcounts, displs displs, type sendtype, out@leaf recvbuf, "
  .. "count recvcount, type recvtype, root root, comm comm", { forms = all, exchange = "LISTS" })
for _, kind in ipairs { { "", "*" }, { "Neighbor_", "~" } } do
  local name = function(n) return kind[1] == "" and n or kind[1] .. n:lower() end
  local function each(text) return (text:gsub("%*", kind[2])) end
  local edges = kind[2] == "~"
  local one, lists = { forms = all, edges = edges, exchange = not edges and "bytes(recvcount, recvtype)" },
    { forms = all, edges = edges, exchange = not edges and "LISTS" }
  row("packed", name "Allgather", each("in sendbuf, count sendcount, type sendtype, out* recvbuf, count recvcount, "
    .. "type recvtype, comm comm"), one)
  row("packed", name "Allgatherv", each("in sendbuf, count sendcount, type sendtype, out* recvbuf, counts recvcounts, "
    .. "displs displs, type recvtype, comm comm"), lists)
  row("packed", name "Alltoall", each("in* sendbuf, count sendcount, type sendtype, out* recvbuf, count recvcount, "
    .. "type recvtype, comm comm"), one)
  row("packed", name "Alltoallv", each("in* sendbuf, counts sendcounts, displs sdispls, type sendtype, out* recvbuf, "
    .. "counts recvcounts, displs rdispls, type recvtype, comm comm"), lists)
  local bytes = kind[1] == "" and "displs" or "adispls"
  row("packed", name "Alltoallw", each("in* sendbuf, counts sendcounts, %s sdispls, types sendtypes, out* recvbuf, "
    .. "counts recvcounts, %s rdispls, types recvtypes, comm comm"):gsub("%%s", bytes),
    { forms = all, edges = edges, exchange = lists.exchange, degrees = edges })
end

-- Communicators with a topology.
for _, r in ipairs {
  { "Cart_create", "comm comm, int ndims, const int dims[], const int periods[], int reorder" },
  { "Cart_sub", "comm comm, const int remain_dims[]" },
  { "Graph_create", "comm comm, int nnodes, const int index[], const int edges[], int reorder" },
  { "Dist_graph_create", "comm comm, int n, const int sources[], const int degrees[], const int destinations[], "
    .. "const int weights[], info info, int reorder" },
  { "Dist_graph_create_adjacent", "comm comm, int indegree, const int sources[], const int sourceweights[], "
    .. "int outdegree, const int destinations[], const int destweights[], info info, int reorder" },
  { "Comm_dup", "comm comm" },
  { "Comm_dup_with_info", "comm comm, info info" },
} do
  row("own", r[1], r[2] .. ", MPI_Comm *newcomm", { when = "node", vote = true, as = "passed",
    why = "the ranks of a node agree on how neighbourhood collectives will go" })
end

-- Reductions: the operation may be the application's and sees the datatype, so the layout stays.
local function reduction(name, arguments, bytes)
  row("staged", name, arguments, { forms = all, exchange = bytes,
    kernel = ("exchange_reduce(&o, EXCHANGE_%s, op, %%s, &rc)"):format(name:upper()) })
end
local reduce_bytes = "reduce_bytes(count, datatype, op)"
reduction("Reduce", "in@leaf sendbuf, out@root recvbuf, count count, type datatype, MPI_Op op, root root, comm comm",
  reduce_bytes)
for _, r in ipairs { { "Allreduce", "out" }, { "Scan", "out" }, { "Exscan", "out>" } } do
  reduction(r[1], "in sendbuf, " .. r[2] .. " recvbuf, count count, type datatype, MPI_Op op, comm comm", reduce_bytes)
end
reduction("Reduce_scatter", "in+ sendbuf, out= recvbuf, counts recvcounts, type datatype, MPI_Op op, comm comm",
  "reduce_list_bytes(comm, recvcounts, sizeof *recvcounts, datatype, op)")
reduction("Reduce_scatter_block", "in# sendbuf, out= recvbuf, count recvcount, type datatype, MPI_Op op, comm comm",
  "reduce_block_bytes(comm, recvcount, datatype, op)")
row("staged", "Reduce_local", "in inbuf, inout inoutbuf, count count, type datatype, MPI_Op op",
  { kernel = "reduction_local(&o, op, &rc)", as = "accelerated",
    why = "predefined operations on predefined types by one kernel, if one device holds both buffers; others staged" })

-- Completion.
row("own", "Wait", "request request, status status", { when = "pending" })
row("own", "Test", "request request, int *flag, status status", { when = "pending" })
row("own", "Waitall", "int count, requests requests, statuses statuses", { when = "pending" })
row("own", "Testall", "int count, requests requests, int *flag, statuses statuses", { when = "pending" })
row("own", "Waitany", "int count, requests requests, int *index, status status", { when = "pending" })
row("own", "Testany", "int count, requests requests, int *index, int *flag, status status", { when = "pending" })
row("own", "Waitsome", "int incount, requests requests, int *outcount, int indices[], statuses statuses",
  { when = "pending" })
row("own", "Testsome", "int incount, requests requests, int *outcount, int indices[], statuses statuses",
  { when = "pending" })
row("own", "Request_get_status", "MPI_Request request, int *flag, status status", { when = "pending" })
row("own", "Request_get_status_any", "int count, const MPI_Request requests[], int *index, int *flag, status status",
  { when = "pending" })
row("own", "Request_get_status_all", "int count, const MPI_Request requests[], int *flag, statuses statuses",
  { when = "pending" })
row("own", "Request_get_status_some", "int incount, const MPI_Request requests[], int *outcount, int indices[], "
  .. "statuses statuses", { when = "pending" })
row("own", "Request_free", "request request", { when = "kept" })
row("own", "Cancel", "request request", { when = "pending", as = "passed",
  why = "cancelling is the MPI's: the record learns of it when the request completes" })
row("own", "Start", "request request", { when = "start" })
row("own", "Startall", "int count, requests requests", { when = "start" })

-- One-sided.
local target = "int target_rank, MPI_Aint target_disp, size target_count, MPI_Datatype target_datatype"
local origin = "%s origin_addr, count origin_count, type origin_datatype, " .. target
local result = "in origin_addr, count origin_count, type origin_datatype, out result_addr, count result_count, "
  .. "type result_datatype, " .. target .. ", MPI_Op op, MPI_Win win"
-- The call on a window of stridec's own. more: members of struct window_op (collective/window.h).
local function on_own(call, more)
  return ("window_take(&(struct window_op){.call = WINDOW_%s, .win = win, .target = target_rank, "
    .. ".disp = target_disp, %s}, &o, &rc)"):format(call:upper(), more)
end
local MOVED = "between device memories of a node in one kernel; else typed device buffers travel as packed bytes"
local COMBINED = "on device memory of a node by kernels; else device buffers are copied to host memory for the MPI"
local OF_TARGET = ".count = target_count, .type = target_datatype"
for _, r in ipairs {
  { "packed", "Put", origin:format("in") .. ", MPI_Win win", OF_TARGET },
  { "packed", "Get", origin:format("out") .. ", MPI_Win win", OF_TARGET },
  { "staged", "Accumulate", origin:format("in") .. ", MPI_Op op, MPI_Win win", OF_TARGET .. ", .op = op" },
  { "staged", "Get_accumulate", result, OF_TARGET .. ", .op = op" },
} do
  local flat = r[1] == "staged"
  local why = flat and COMBINED or MOVED
  row(r[1], r[2], r[3],
    { keep = "window", flat = flat, kernel = on_own(r[2], r[4]), as = "accelerated", why = why })
  row(r[1], "R" .. r[2]:lower(), r[3] .. ", request request",
    { keep = r[2]:find "^Get" and "read" or "request", flat = flat, as = "accelerated", why = why,
      kernel = on_own(r[2], r[4] .. ", .request = request") })
end
row("staged", "Fetch_and_op", "in origin_addr, out result_addr, type datatype, int target_rank, MPI_Aint target_disp, "
  .. "MPI_Op op, MPI_Win win",
  { keep = "window", small = true, as = "accelerated", why = COMBINED,
    kernel = on_own("get_accumulate", ".count = 1, .type = datatype, .op = op") })
row("staged", "Compare_and_swap", "in origin_addr, in compare_addr, out result_addr, type datatype, int target_rank, "
  .. "MPI_Aint target_disp, MPI_Win win",
  { keep = "window", small = true, as = "accelerated", why = COMBINED,
    kernel = on_own("compare_and_swap", ".count = 1, .type = datatype") })
for _, r in ipairs {
  { "Win_fence", "int assert, MPI_Win win" }, { "Win_complete", "MPI_Win win" },
  { "Win_unlock", "int rank, MPI_Win win" }, { "Win_unlock_all", "MPI_Win win" },
  { "Win_flush", "int rank, MPI_Win win" }, { "Win_flush_all", "MPI_Win win" },
  { "Win_flush_local", "int rank, MPI_Win win" }, { "Win_flush_local_all", "MPI_Win win" },
  { "Win_free", "MPI_Win *win" },
  { "Win_post", "MPI_Group group, int assert, MPI_Win win" },
  { "Win_start", "MPI_Group group, int assert, MPI_Win win" },
  { "Win_wait", "MPI_Win win" }, { "Win_test", "MPI_Win win, int *flag" },
  { "Win_lock", "int lock_type, int rank, int assert, MPI_Win win" }, { "Win_lock_all", "int assert, MPI_Win win" },
  { "Win_sync", "MPI_Win win" },
  { "Win_get_attr", "MPI_Win win, int win_keyval, void *attribute_val, int *flag" },
} do
  row("own", r[1], r[2], { when = "window" })
end

-- Memory that the MPI keeps using.
row("own", "Win_create", "void *base, MPI_Aint size, unit disp_unit, info info, comm comm, MPI_Win *win",
  { large = true, when = "host", unless = "driver_absent() && !node_armed()" })
row("own", "Win_attach", "MPI_Win win, void *base, MPI_Aint size")
row("own", "Buffer_attach", "void *buffer, size size", { large = true })
row("own", "Comm_attach_buffer", "comm comm, void *buffer, size size", { large = true })
row("own", "Session_attach_buffer", "MPI_Session session, void *buffer, size size", { large = true })

-- Files. In a view of another representation than "native" the buffer is staged (args_file.c).
for _, way in ipairs { { "read", "out?" }, { "write", "in" } } do
  local name = function(rest) return "File_" .. way[1] .. rest end
  local buffer = way[2] .. " buf, count count, type datatype"
  for _, at in ipairs { { "", "MPI_File fh, " }, { "_at", "MPI_File fh, MPI_Offset offset, " } } do
    for _, together in ipairs { "", "_all" } do
      row("packed", name(at[1] .. together), at[2] .. buffer .. ", status status")
      row("packed", "File_i" .. way[1] .. at[1] .. together, at[2] .. buffer .. ", request request",
        { keep = "request" })
    end
    row("packed", name(at[1] .. "_all_begin"), at[2] .. buffer, { keep = "file" })
  end
  row("packed", name "_shared", "MPI_File fh, " .. buffer .. ", status status")
  row("packed", "File_i" .. way[1] .. "_shared", "MPI_File fh, " .. buffer .. ", request request", { keep = "request" })
  row("packed", name "_ordered", "MPI_File fh, " .. buffer .. ", status status")
  row("packed", name "_ordered_begin", "MPI_File fh, " .. buffer, { keep = "file" })
  local const = way[1] == "write" and "const " or ""
  for _, rest in ipairs { "_all_end", "_at_all_end", "_ordered_end" } do
    row("own", name(rest), "MPI_File fh, " .. const .. "void *buf, status status")
  end
end

-- MPICH's communicators with streams.
for _, r in ipairs {
  { "Stream_create", "info info, MPIX_Stream *stream" }, { "Stream_free", "MPIX_Stream *stream" },
  { "Stream_comm_create", "comm comm, MPIX_Stream stream, MPI_Comm *newcomm" },
  { "Stream_comm_create_multiplex", "comm comm, int count, MPIX_Stream array_of_streams[], MPI_Comm *newcomm" },
} do
  row("own", r[1], r[2], { extension = true, when = "host", unless = "driver_absent() && !rts_armed()" })
end
for _, r in ipairs {
  { "Send_enqueue", "in buf, count count, type datatype, int dest, int tag, comm comm" },
  { "Recv_enqueue", "out buf, count count, type datatype, int source, int tag, comm comm, status status" },
  { "Isend_enqueue", "in buf, count count, type datatype, int dest, int tag, comm comm, request request" },
  { "Irecv_enqueue", "out buf, count count, type datatype, int source, int tag, comm comm, request request" },
  { "Wait_enqueue", "request request, status status", small = true },
  { "Waitall_enqueue", "int count, requests array_of_requests, MPI_Status *array_of_statuses", small = true },
} do
  row("own", r[1], r[2], { extension = true, when = "host", unless = "driver_absent()", large = not r.small })
end

for _, name in ipairs { "Comm_free", "Comm_disconnect" } do
  row("own", name, "MPI_Comm *comm", { when = "pending", as = "passed",
    why = "no error of a request is raised on what is gone" })
end

-- Calls after which a message may have arrived.
row("poll", "Barrier", "comm comm", { syncs = true })
for _, r in ipairs {
  { "Probe", "int source, int tag, comm comm, status status" },
  { "Iprobe", "int source, int tag, comm comm, int *flag, status status" },
  { "Mprobe", "int source, int tag, comm comm, MPI_Message *message, status status" },
  { "Improbe", "int source, int tag, comm comm, int *flag, MPI_Message *message, status status" },
} do
  row("own", r[1], r[2])
end

-- Passed through.
local function passed(why, names)
  for name in names:gmatch "%S+" do row("passed", name, nil, { why = why }) end
end
passed("builds or asks a datatype: what belongs to a layout hangs on the datatype as an attribute", [[
  Type_contiguous Type_vector Type_create_hvector Type_indexed Type_create_hindexed Type_create_indexed_block
  Type_create_hindexed_block Type_create_struct Type_create_subarray Type_create_darray Type_create_resized Type_dup
  Type_create_f90_integer Type_create_f90_real Type_create_f90_complex Type_match_size Type_size Type_size_x
  Type_get_extent Type_get_extent_x Type_get_true_extent Type_get_true_extent_x Type_get_envelope Type_get_contents
  Type_get_name Type_get_attr Type_set_attr Type_delete_attr Type_get_value_index
  Type_hvector Type_hindexed Type_struct Type_extent Type_lb Type_ub ]])
passed("counts bytes, and what stridec sends and receives are plain messages of the payload's size", [[
  Get_count Get_elements Get_elements_x Status_set_elements Status_set_elements_x Pack_size Pack_external_size
  File_get_type_extent File_set_view File_get_view ]])
passed("its request is never one that stridec keeps a record of", [[
  Ibarrier Barrier_init Comm_idup Comm_idup_with_info Grequest_start Grequest_complete
  Buffer_iflush Comm_iflush_buffer Session_iflush_buffer ]])
passed("the MPI moves the data itself, through host memory of its own", [[
  Allreduce_enqueue Stream_send Stream_recv Stream_isend Stream_irecv ]])
passed("the MPI allocates the memory itself", "Alloc_mem Free_mem Win_allocate Win_allocate_shared Win_shared_query")
passed("names memory that was attached before", [[
  Buffer_detach Win_detach Comm_detach_buffer Session_detach_buffer ]])
passed("takes an address, not data", "Get_address Address")

-- The texts of the rows written by hand.
local function by_hand(as, why, names)
  for name in names:gmatch "%S+" do
    local found = false
    for _, r in ipairs(rows) do
      if r.how == "own" and r.name == name then r.as, r.why, found = as, why, true end
    end
    assert(found, "no row is written by hand for " .. name)
  end
end
by_hand("passed", "stridec begins after it", "Init Init_thread Session_init")
by_hand("passed", "stridec ends before it: what is still under way is completed first",
  "Finalize Session_finalize")
by_hand("passed", "the type's kernel is asked for, and compiled in the background", "Type_commit")
by_hand("accelerated", "one kernel between typed and packed bytes, wherever either lies", "Pack Unpack")
by_hand("accelerated", "typed device buffers are packed by a kernel and travel as packed bytes", [[
  Send Ssend Rsend Bsend Isend Issend Irsend Ibsend ]])
by_hand("accelerated", "packed bytes arrive, and a kernel unpacks them into typed device buffers",
  "Recv Irecv Mrecv Imrecv")
by_hand("accelerated", "typed device buffers are packed and unpacked by kernels",
  "Sendrecv Sendrecv_replace Isendrecv Isendrecv_replace")
by_hand("accelerated", "completes what stridec started: all that has arrived is unpacked together", [[
  Wait Test Waitall Testall Waitany Testany Waitsome Testsome ]])
by_hand("accelerated", "a request that is seen to be complete has its data in place", [[
  Request_get_status Request_get_status_any Request_get_status_all Request_get_status_some ]])
by_hand("passed", "a message that stands for its payload is told of as that", "Probe Iprobe Mprobe Improbe")
by_hand("passed", "streams of GPUs are noted", "Stream_create Stream_free")
by_hand("passed", "with a GPU's stream, or several streams, messages are packed bytes: the MPI receives some itself",
  "Stream_comm_create Stream_comm_create_multiplex")
by_hand("accelerated", "in the stream's order a kernel packs typed device buffers for the MPI, and unpacks them",
  "Send_enqueue Recv_enqueue Isend_enqueue Irecv_enqueue")
by_hand("accelerated", "what comes is unpacked in the stream's order", "Wait_enqueue Waitall_enqueue")
by_hand("accelerated", "what is still under way is looked after until it completes", "Request_free")
by_hand("accelerated", "typed device buffers of persistent requests are packed at each start", "Start Startall")
by_hand("staged", "partitions of device buffers are copied to and from host memory of the same layout",
  "Psend_init Precv_init Pready Pready_range Pready_list Parrived")
by_hand("accelerated", "completes what kernels moved, or what one-sided calls of the MPI carried", [[
  Win_fence Win_complete Win_unlock Win_unlock_all Win_flush Win_flush_all Win_flush_local
  Win_flush_local_all Win_free ]])
by_hand("accelerated", "epochs of windows over device memory in a node are stridec's own", [[
  Win_post Win_start Win_wait Win_test Win_lock Win_lock_all Win_sync Win_get_attr ]])
by_hand("accelerated", "over device memory in a node kernels do all calls; elsewhere it needs a CUDA-aware MPI",
  "Win_create")
by_hand("passed", "device memory on an MPI that is not CUDA-aware is an error", "Win_attach")
by_hand("passed", "device memory is an error: the MPI keeps lists of its own in the buffer",
  "Buffer_attach Comm_attach_buffer Session_attach_buffer")
by_hand("accelerated", "completes what the split collective's beginning carried", [[
  File_read_all_end File_read_at_all_end File_read_ordered_end
  File_write_all_end File_write_at_all_end File_write_ordered_end ]])

for _, r in ipairs(rows) do
  assert(r.how ~= "own" or r.why, "nothing says what becomes of " .. tostring(r.name))
end
return rows
