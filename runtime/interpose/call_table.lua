-- call_table.lua CALLS HAS: writes the table of `stridec doctor --calls` to stdout. The arguments are stubs.lua's.
local present, passed, has = assert(loadfile((arg[0]:gsub("call_table.lua$", "functions.lua"))))(arg[1], arg[2])

local HOW = { packed = "accelerated", staged = "staged", poll = "passed" }
local WHY = {
  packed = "typed device buffers travel as packed bytes",
  staged = "device buffers are copied to host memory of the same layout, which the MPI sees",
  exchange = "among the ranks of a node, if they agree, zero-copy; else typed device buffers travel packed",
  reduce = "predefined operations among the ranks of a node, if they agree, by kernels; "
    .. "else as a copy in host memory",
  edges = "among the ranks of a node zero-copy, in one launch; else typed device buffers travel packed",
  poll = "unpacks what freed receives have brought",
}
io.write('#include "interpose/call_table.h"\n\nconst struct call_row call_rows[] = {\n')
for _, f in ipairs(present) do
  io.write(('    {"%s", "%s", "%s"},\n'):format(f.symbol,
    f.row.as or f.row.kernel and "accelerated" or HOW[f.row.how] or "accelerated",
    f.row.why or f.row.edges and WHY.edges or f.row.exchange and (f.row.kernel and WHY.reduce or WHY.exchange)
      or WHY[f.row.how] or ""))
end
for _, row in ipairs(passed) do
  local other = (row.name:find "_init$" or row.name:find "_enqueue$" or row.name:find "^Stream_")
    and not has["MPI_" .. row.name]
  for _, name in ipairs { "MPI_" .. row.name, "MPI_" .. row.name .. "_c", other and "MPIX_" .. row.name,
    other and "MPIX_" .. row.name .. "_c" } do
    if has[name] then io.write(('    {"%s", "passed", "%s"},\n'):format(name, row.why)) end
  end
end
io.write("};\nconst int call_row_total = sizeof call_rows / sizeof *call_rows;\n")
