-- calls.lua: the MPI functions that stridec takes, with their arguments. stubs.lua makes the stubs from it.
--
-- Every other function reaches the MPI untouched. So do Get_count, Pack_size, Type_free and
-- their like: what stridec sends and receives are plain messages of the payload's size, and what belongs to
-- a datatype hangs on it as an attribute.
--
-- poll: the call is the MPI's own, but freed receives that have completed are unpacked before it returns: it
--       may be what tells the application that they have.
-- when: "always", "device" (the process has loaded a CUDA driver), "pending" (stridec holds side records of
--       requests); otherwise the stub is a straight call.
-- args: one string an argument, ROLE: C declaration. Roles: in (buffer that is read), out (buffer that is
--       written), count, type, request, requests (array), status, statuses (array); none for the rest.

local send = { "in: const void *buf", "count: int count", "type: MPI_Datatype datatype",
               "int dest", "int tag", "MPI_Comm comm" }
local receive = { "out: void *buf", "count: int count", "type: MPI_Datatype datatype" }

local function with(args, ...)
  local all = { table.unpack(args) }
  for _, a in ipairs { ... } do all[#all + 1] = a end
  return all
end
local isend = with(send, "request: MPI_Request *request")

return {
  { name = "Init",        when = "always", args = { "int *argc", "char ***argv" } },
  { name = "Init_thread", when = "always", args = { "int *argc", "char ***argv", "int required", "int *provided" } },
  { name = "Finalize",    when = "always", args = {} },
  { name = "Type_commit", when = "device", args = { "type: MPI_Datatype *datatype" } },

  { name = "Pack", when = "device", args = {
      "in: const void *inbuf", "count: int incount", "type: MPI_Datatype datatype",
      "out: void *outbuf", "int outsize", "int *position", "MPI_Comm comm" } },
  { name = "Unpack", when = "device", args = {
      "in: const void *inbuf", "int insize", "int *position",
      "out: void *outbuf", "count: int outcount", "type: MPI_Datatype datatype", "MPI_Comm comm" } },

  { name = "Send",   when = "device", args = send },
  { name = "Ssend",  when = "device", args = send },
  { name = "Rsend",  when = "device", args = send },
  { name = "Bsend",  when = "device", args = send },
  { name = "Isend",  when = "device", args = isend },
  { name = "Issend", when = "device", args = isend },
  { name = "Irsend", when = "device", args = isend },
  { name = "Ibsend", when = "device", args = isend },
  { name = "Recv",   when = "device", args = with(receive, "int source", "int tag", "MPI_Comm comm",
                                                  "status: MPI_Status *status") },
  { name = "Irecv",  when = "device", args = with(receive, "int source", "int tag", "MPI_Comm comm",
                                                  "request: MPI_Request *request") },
  { name = "Mrecv",  when = "device", args = with(receive, "MPI_Message *message", "status: MPI_Status *status") },
  { name = "Imrecv", when = "device", args = with(receive, "MPI_Message *message", "request: MPI_Request *request") },
  { name = "Sendrecv", when = "device", args = {
      "in: const void *sendbuf", "count: int sendcount", "type: MPI_Datatype sendtype", "int dest", "int sendtag",
      "out: void *recvbuf", "count: int recvcount", "type: MPI_Datatype recvtype", "int source", "int recvtag",
      "MPI_Comm comm", "status: MPI_Status *status" } },
  { name = "Sendrecv_replace", when = "device", args = with(receive, "int dest", "int sendtag", "int source",
      "int recvtag", "MPI_Comm comm", "status: MPI_Status *status") },

  { name = "Wait", when = "pending", args = { "request: MPI_Request *request", "status: MPI_Status *status" } },
  { name = "Test", when = "pending", args = { "request: MPI_Request *request", "int *flag",
                                              "status: MPI_Status *status" } },
  { name = "Waitall", when = "pending", args = { "int count", "requests: MPI_Request requests[]",
                                                 "statuses: MPI_Status statuses[]" } },
  { name = "Testall", when = "pending", args = { "int count", "requests: MPI_Request requests[]", "int *flag",
                                                 "statuses: MPI_Status statuses[]" } },
  { name = "Waitany", when = "pending", args = { "int count", "requests: MPI_Request requests[]", "int *index",
                                                 "status: MPI_Status *status" } },
  { name = "Testany", when = "pending", args = { "int count", "requests: MPI_Request requests[]", "int *index",
                                                 "int *flag", "status: MPI_Status *status" } },
  { name = "Waitsome", when = "pending", args = { "int incount", "requests: MPI_Request requests[]", "int *outcount",
                                                  "int indices[]", "statuses: MPI_Status statuses[]" } },
  { name = "Testsome", when = "pending", args = { "int incount", "requests: MPI_Request requests[]", "int *outcount",
                                                  "int indices[]", "statuses: MPI_Status statuses[]" } },
  { name = "Request_get_status", when = "pending", args = { "request: MPI_Request request", "int *flag",
                                                            "status: MPI_Status *status" } },
  { name = "Request_free", when = "pending", args = { "request: MPI_Request *request" } },

  { name = "Barrier", poll = true, args = { "MPI_Comm comm" } },
  { name = "Probe",   poll = true, args = { "int source", "int tag", "MPI_Comm comm", "status: MPI_Status *status" } },
  { name = "Iprobe",  poll = true, args = { "int source", "int tag", "MPI_Comm comm", "int *flag",
                                            "status: MPI_Status *status" } },
  { name = "Mprobe",  poll = true, args = { "int source", "int tag", "MPI_Comm comm", "MPI_Message *message",
                                            "status: MPI_Status *status" } },
  { name = "Improbe", poll = true, args = { "int source", "int tag", "MPI_Comm comm", "int *flag",
                                            "MPI_Message *message", "status: MPI_Status *status" } },
}
