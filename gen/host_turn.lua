-- host_turn.lua: transposed layouts in code for host memory (host_loop.lua): columns of short blocks that lie beside each other,
-- so that each line of memory holds blocks of several columns. Moved in tiles, a few columns wide and a few rows high.
local code = require "host_code"
local literal = require "index".literal
local add, all_call, moved, other = code.add, code.all_call, code.moved, code.other

local turn = {}

local NEAR_MAX = 32         -- bytes: steps from one column to the next that share lines ...
local LINES = 128           -- ... and how much of such a row is moved at a time, where nothing else was quicker
local TURN_MIN = 8          -- shorter columns are not worth turning

function turn.suits(node)
  local column = node.child
  if node.kind ~= "stride" or column.kind ~= "stride" or column.child.kind ~= "dense" then return false end
  local near, far = math.abs(node.step), math.abs(column.step)
  return near > 0 and near <= NEAR_MAX and far >= 2 * near and far >= 64 and column.count >= TURN_MIN
    and column.child.count <= near and node.count * near <= far
end

-- Tiles by the bytes from one column to the next: columns and rows; others are LINES wide and one row high, also where rows lie
-- `apart`, or a multiple of that, and the first cache has few places for them. Packing, the compiler makes vectors of words;
-- nothing is won by fetching ahead. (512 columns of 512 doubles: 150 us, not 540, EPYC.)
local OTHERS = {
  pack = { [4] = { { 16, 4 } }, [8] = { { 8, 2 } }, [16] = { { 4, 4 }, apart = 2048 } },
  unpack = { [4] = { { 16, 1 } }, [8] = { { 8, 1 } } },
}

-- On Intel's (templates/host.c), each tile for what those before leave; the others' where rows do not lie `apart`, unless there are
-- so many `bytes`. Squares of 16 to 512 columns of 16 B are packed 1.1 to 1.6 times as quick as in either of the others' tiles,
-- and unpacked so; of 8 B unpacked to 1.9 times, of 4 B to 2.3 times (Sapphire Rapids, GCC 12 and 13).
local WIDE = { { 32, 1 }, { 16, 1 }, { 8, 1 } }
local INTELS = {
  pack = { [16] = { { 8, 8 }, { 4, 8 }, { 1, 8 }, apart = 512, bytes = 1 << 19 } },
  unpack = { [4] = WIDE, [8] = WIDE, [16] = { { 16, 1 }, { 8, 1 } } },
}

local function shapes_of(tiles, way, node) return tiles[way] and tiles[way][math.abs(node.step)] end

local function others_tiles(way, node)
  local shapes = shapes_of(OTHERS, way, node)
  if shapes and not (shapes.apart and node.child.step % shapes.apart == 0) then return shapes end
  return { { LINES // math.abs(node.step), 1 } }
end

local function intels_tiles(way, node)
  local shapes, fit = shapes_of(INTELS, way, node), {}
  local suits = shapes and (not shapes.apart or node.child.step % shapes.apart == 0 or node.count * node.child.size >= shapes.bytes)
  for _, t in ipairs(suits and shapes or {}) do
    if t[1] <= node.count then fit[#fit + 1] = t end
  end
  return #fit > 0 and fit or others_tiles(way, node)
end

local function text_of(shapes)
  local text = {}
  for i, t in ipairs(shapes) do text[i] = ("%d by %d"):format(t[1], t[2]) end
  return table.concat(text, ", then ")
end

local function emit(way, node, shapes, lines)
  local column, block = node.child, node.child.child
  local function move(columns, c, j)
    local from = moved(("(i + %s) * %s + (%s) * %s"):format(c, literal(node.step), j, literal(column.step)), column.off + block.off)
    add(lines, "            for (s64 c = %s; c++) {", columns)
    add(lines, "                char *const from = u + %s;", from)
    add(lines, "                %s", all_call(way, block, other(way, from, ("p + (%s) * %s + (%s) * %s"):format(
      c, literal(column.size), j, literal(block.size))), "from"))
    if way ~= "pack" and block.count <= 8 then add(lines, "                ONE_BY_ONE;") end
    add(lines, "            }")
  end
  add(lines, "    s64 k = 0;")
  for _, t in ipairs(shapes) do
    local wide, high = t[1], t[2]
    add(lines, "    for (; k + %d <= n; k += %d) {", wide, wide)
    add(lines, "        s64 j = 0;")
    add(lines, "        for (; j + %d <= %s; j += %d) {", high, literal(column.count), high)
    add(lines, "#pragma GCC unroll %d", wide * high)
    move(("0; c < %d"):format(wide * high), ("k + c / %d"):format(high), ("j + c %% %d"):format(high))
    add(lines, "        }")
    add(lines, "        for (; j < %s; j++) {", literal(column.count))
    move(("k; c < k + %d"):format(wide), "c", "j")
    add(lines, "        }")
    add(lines, "    }")
  end
  add(lines, "    for (s64 j = 0; k < n && j < %s; j++) {", literal(column.count))
  move("k; c < n", "c", "j")
  add(lines, "    }")
end

-- Of the copies from the i'th on, as host.lua's WAY_run_N has them.
function turn.emit(way, node, lines)
  local others, intels = others_tiles(way, node), intels_tiles(way, node)
  if text_of(others) == text_of(intels) then return emit(way, node, others, lines) end
  add(lines, "#ifdef __AVX512FP16__")
  emit(way, node, intels, lines)
  add(lines, "#else")
  emit(way, node, others, lines)
  add(lines, "#endif")
end

-- What of it a reader is told.
function turn.why(node, lines)
  if not turn.suits(node) then return end
  local function by(way)
    local others, intels = text_of(others_tiles(way, node)), text_of(intels_tiles(way, node))
    return others == intels and others or ("%s (Intel's: %s)"):format(others, intels)
  end
  add(lines, "columns %d B apart: in tiles of %s blocks packing, of %s unpacking", node.step, by "pack", by "unpack")
end

return turn
