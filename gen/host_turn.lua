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

-- Tiles by the bytes from one column to the next: columns and rows; others are LINES wide and one row high, also where rows
-- lie ALIASED bytes apart and the first cache has few places for them. Packing, the compiler makes vectors of words; nothing is
-- won by fetching ahead. (512 columns of 512 doubles: 150 us, not 540, EPYC.)
local TILES = {
  pack = { [4] = { 16, 4 }, [8] = { 8, 2 }, [16] = { 4, 4, apart = true } },
  unpack = { [4] = { 16, 1 }, [8] = { 8, 1 } },
}
local ALIASED = 2048
local function tile(way, node)
  local near, t = math.abs(node.step), TILES[way] and TILES[way][math.abs(node.step)]
  if not t or (t.apart and node.child.step % ALIASED == 0) then return LINES // near, 1 end
  return t[1], t[2]
end

-- Of the copies from the i'th on, as host.lua's WAY_run_N has them.
function turn.emit(way, node, lines)
  local column, block, wide, high = node.child, node.child.child, tile(way, node)
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
  add(lines, "    for (s64 j = 0; k < n && j < %s; j++) {", literal(column.count))
  move("k; c < n", "c", "j")
  add(lines, "    }")
end

-- What of it a reader is told.
function turn.why(node, lines)
  if not turn.suits(node) then return end
  local function by(way) return ("%d by %d"):format(tile(way, node)) end
  add(lines, "columns %d B apart: in tiles of %s blocks packing, %s unpacking", node.step, by "pack", by "unpack")
end

return turn
