-- stubs.lua CALLS next.h|stubs.c: from calls.lua, the table of next functions or the exported stubs, on stdout.
local calls, what = dofile(arg[1]), arg[2]

-- "in: const void *buf" -> "const void *buf", "buf"
local function argument(text)
  local declaration = text:gsub("^%l+: ", "")
  return declaration, assert(declaration:match("([%w_]+)%[?%]?$"), text)
end

local function arguments(call)
  local declarations, names = {}, {}
  for i, text in ipairs(call.args) do declarations[i], names[i] = argument(text) end
  return table.concat(declarations, ", "), table.concat(names, ", ")
end

local function emit(text, values) io.write((text:gsub("%$(%w+)", values))) end

-- The template for every call that it is meant for: all, those with a call_X, or those that only poll.
local function each(template, kind)
  for _, call in ipairs(calls) do
    if kind and (kind == "poll") ~= (call.poll or false) then goto continue end
    local declarations, names = arguments(call)
    emit(template, {
      name = call.name, upper = (call.when or ""):upper(), names = names,
      declarations = declarations == "" and "void" or declarations,
      more = declarations == "" and "" or ", " .. declarations,
      pass = names == "" and "" or ", " .. names,
    })
    ::continue::
  end
end

io.write("/* made by runtime/stubs.lua from runtime/calls.lua */\n")
if what == "next.h" then
  io.write("#ifndef STRIDEC_NEXT_H\n#define STRIDEC_NEXT_H\n#include <mpi.h>\n\n",
           "/* The functions that the next library in the chain gives for MPI_X, or for PMPI_X. */\n",
           "struct next {\n")
  each "    int (*$name)($declarations);\n"
  io.write("};\n\n")
  each("int call_$name(const struct next *next$more);\n", "act")
  io.write("\n#endif\n")
else
  io.write('#include "interpose.h"\n#include "next.h"\n#include <dlfcn.h>\n\n',
           "struct next next_mpi, next_pmpi;\n\n__attribute__((constructor)) static void find_next(void)\n{\n")
  each [[
    *(void **)&next_mpi.$name = dlsym(RTLD_NEXT, "MPI_$name");
    *(void **)&next_pmpi.$name = dlsym(RTLD_NEXT, "PMPI_$name");
]]
  io.write("}\n")
  each([[

EXPORT int MPI_$name($declarations)
{
    if (!interpose_enter(WHEN_$upper)) return next_mpi.$name($names);
    int rc = call_$name(&next_mpi$pass);
    interpose_leave();
    return rc;
}
EXPORT int PMPI_$name($declarations)
{
    if (!interpose_enter(WHEN_$upper)) return next_pmpi.$name($names);
    int rc = call_$name(&next_pmpi$pass);
    interpose_leave();
    return rc;
}
]], "act")
  each([[

EXPORT int MPI_$name($declarations)
{
    int rc = next_mpi.$name($names);
    interpose_poll();
    return rc;
}
EXPORT int PMPI_$name($declarations)
{
    int rc = next_pmpi.$name($names);
    interpose_poll();
    return rc;
}
]], "poll")
end
