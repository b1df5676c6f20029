-- gpu_rows.lua OUT: writes the rows of gpus.lua as a C file (gpu.h).
package.path = "gen/?.lua;" .. package.path
local gpus = require "gpus"
local f = assert(io.open(arg[1], "w"))
f:write('/* made by gen/gpu_rows.lua */\n#include "gpu.h"\nconst struct gen_gpu gen_gpu_rows[] = {\n')
for _, row in ipairs(gpus.ROWS) do
  f:write(("    {%d, %d, %d, %d, %d, %d, %d},   /* %s */\n"):format(row.sm, row.multiprocessors, row.threads, row.cache,
    row.memory, row.link, row.host, row.name))
end
f:write("};\nconst int gen_gpu_row_count = sizeof gen_gpu_rows / sizeof *gen_gpu_rows;\n")
f:close()
