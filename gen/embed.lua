-- embed.lua OUT FILE... [-- FILE...]: writes a C file that holds the given files as text, and a hash of them all.
-- Files behind "--" count in the hash only: sources that decide with the embedded ones what a module does.
-- The names in the C file begin with OUT's: "embedded.c" has embedded_files, embedded_version and embedded_find.
local out = table.remove(arg, 1)
local prefix = out:match("([%w_]+)%.c$")
local embedded, hashed, list = {}, {}, nil
list = embedded
for _, name in ipairs(arg) do
  if name == "--" then list = hashed else list[#list + 1] = name end
end
table.sort(embedded)
table.sort(hashed)

-- FNV-1a, 64 bits: the version changes whenever any embedded byte does.
local hash = 0xcbf29ce484222325
local function mix(s)
  for i = 1, #s do hash = (hash ~ s:byte(i)) * 0x100000001b3 end
end

local f = assert(io.open(out, "w"))
f:write('/* made by gen/embed.lua */\n#include "embed.h"\n#include <string.h>\n')
for i, name in ipairs(embedded) do
  local text = assert(io.open(name, "rb")):read("a")
  mix(name) mix("\0") mix(text)
  f:write("static const char text", i, "[] = {")
  for j = 1, #text do f:write(j % 24 == 1 and "\n" or "", (text:byte(j) ~ 128) - 128, ",") end
  f:write("0};\n")
end
for _, name in ipairs(hashed) do
  mix(name) mix("\0") mix(assert(io.open(name, "rb")):read("a"))
end
f:write("const struct embedded ", prefix, "_files[] = {\n")
for i, name in ipairs(embedded) do f:write(string.format('    {"%s", text%d, sizeof text%d - 1},\n', name, i, i)) end
f:write("    {NULL, NULL, 0}\n};\n")
f:write(string.format('const char %s_version[] = "%016x";\n', prefix, hash))
f:write((([[
const struct embedded *PREFIX_find(const char *name)
{
    for (const struct embedded *e = PREFIX_files; e->name; e++)
        if (!strcmp(e->name, name)) return e;
    return NULL;
}
]]):gsub("PREFIX", prefix)))
f:close()
