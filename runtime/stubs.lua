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

-- Exported stubs take handles by value as words wide enough for any MPI's, and have their C names apart from mpi.h's: under
-- an MPI whose handles are wider than those of the one at build time, a straight call must not cut them (which_mpi.h).
local HANDLE = { MPI_Comm = true, MPI_Datatype = true, MPI_File = true, MPI_Group = true, MPI_Info = true,
                 MPI_Message = true, MPI_Op = true, MPI_Request = true, MPI_Session = true, MPI_Win = true,
                 MPI_Errhandler = true }

local function wide(call)
  local declarations, names = {}, {}
  for i, text in ipairs(call.args) do
    local declaration, name = argument(text)
    local handle = declaration:match("^([%w_]+) [%w_]+$")
    if not HANDLE[handle] then handle = nil end
    declarations[i] = handle and "uintptr_t " .. name or declaration
    names[i] = handle and ("(%s)%s"):format(handle, name) or name
  end
  return table.concat(declarations, ", "), table.concat(names, ", ")
end

local function emit(text, values) io.write((text:gsub("%$(%w+)", values))) end

-- The template for every call that it is meant for: all, those with a call_X, or those that only poll.
local function each(template, kind)
  for _, call in ipairs(calls) do
    if kind and (kind == "poll") ~= (call.poll or false) then goto continue end
    local declarations, names = arguments(call)
    local wide_declarations, typed = wide(call)
    emit(template, {
      wide = wide_declarations == "" and "void" or wide_declarations, typed = typed == "" and "" or ", " .. typed,
      name = call.name, upper = (call.when or ""):upper(), names = names,
      declarations = declarations == "" and "void" or declarations,
      more = declarations == "" and "" or ", " .. declarations,
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
  io.write('#include "interpose.h"\n#include "next.h"\n#include <dlfcn.h>\n#include <stdint.h>\n\n',
           "struct next next_mpi, next_pmpi;\n\n__attribute__((constructor)) static void find_next(void)\n{\n")
  each [[
    *(void **)&next_mpi.$name = dlsym(RTLD_NEXT, "MPI_$name");
    *(void **)&next_pmpi.$name = dlsym(RTLD_NEXT, "PMPI_$name");
]]
  io.write("}\n")
  each("\ntypedef int wide_$name($wide);\n" ..
       "EXPORT wide_$name wide_MPI_$name __asm__(\"MPI_$name\"), wide_PMPI_$name __asm__(\"PMPI_$name\");\n")
  for _, p in ipairs { "", "P" } do
    local function body(text) return (text:gsub("#P", p):gsub("#next", p == "" and "next_mpi" or "next_pmpi")) end
    each(body [[

int wide_#PMPI_$name($wide)
{
    if (!interpose_enter(WHEN_$upper)) return ((wide_$name *)(void (*)(void))#next.$name)($names);
    int rc = call_$name(&#next$typed);
    interpose_leave();
    return rc;
}
]], "act")
    each(body [[

int wide_#PMPI_$name($wide)
{
    int rc = ((wide_$name *)(void (*)(void))#next.$name)($names);
    interpose_poll();
    return rc;
}
]], "poll")
  end
end
