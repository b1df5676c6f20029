-- host.lua: plans and writes the C code that packs and unpacks a tree in host memory, or copies it to where another one like it
-- lies.
--
-- Each node of the tree becomes functions of packed address p and user address u (where the node's offset is added); of a copy
-- p is the other tree's address, and there are no parts:
--   WAY_all_N(p, u, a)              the whole node
--   WAY_run_N(p, u, i, n, a)        n copies of a repeating node's child, from the i'th on: the loop
--   WAY_part_N(p, u, begin, end, a) bytes [begin, end) of the node; copies past the last go on
-- What is constant of the tree is constant in the code; long lists come with the call (form.h). Order in the packed
-- stream is the tree's; where a loop goes another way round, addresses on the packed side follow it.
local index = require "index"
local list = require "host_list"
local moves = require "moves"
local INLINE_MAX = moves.INLINE_MAX
local literal = index.literal
local list_count, at_type, start_type = list.count, list.at_type, list.start_type

local host = {}

local UNROLLED = 16         -- moves in the body of a loop
local FAR = 1024            -- bytes between short blocks, from which on the processor does not fetch ahead by itself
local AHEAD = 16            -- blocks that are fetched ahead
local NEAR_MAX = 32         -- bytes: steps of a transposed layout that share lines ...
local LINES = 128           -- ... and how much of such a row is moved at a time
local TURN_MIN = 8          -- shorter columns are not worth turning

-- Numbers the nodes, lists and lengths in order, and tells each node how many bytes an element has; gen.c fills the lists in
-- the same order.
local function number(tree)
  local all = { nodes = {}, lists = 0, lengths = {} }
  local function visit(node)
    all.nodes[#all.nodes + 1] = node
    node.id, node.whole = #all.nodes, tree.size
    if node.kind == "table" or node.kind == "blocks" then
      node.list = all.lists
      all.lists = all.lists + 1
    end
    if node.kind == "dense" then all.lengths[node.count] = true end
    if node.child then visit(node.child) end
    for _, part in ipairs(node.part or {}) do visit(part) end
  end
  visit(tree)
  return all
end

local function size(node)
  return node.size and literal(node.size) or ("size_%d(a)"):format(node.id)
end

local function copies(node)
  return node.kind == "table" and list_count(node) or literal(node.kind == "index" and #node.at or node.count)
end

-- Sizes that follow from lists: functions, children first.
local function size_lines(all, tree)
  local lines = {}
  for i = #all.nodes, 1, -1 do
    local node, text = all.nodes[i], nil
    if not node.size then
      if node.kind == "blocks" then
        local l = ("a->list[%d]"):format(node.list)
        text = ("%s.section ? section_end(&%s.section[%s.sections - 1]) : (s64)((const %s *)%s.start)[%s.count] * %d")
          :format(l, l, l, start_type(node, tree), l, l, node.unit)
      elseif node.kind == "seq" then
        local sum = {}
        for k, part in ipairs(node.part) do sum[k] = size(part) end
        text = table.concat(sum, " + ")
      else
        text = ("%s * %s"):format(copies(node), size(node.child))
      end
      lines[#lines + 1] = ("FAST s64 size_%d(const struct stridec_host *a) { return %s; }"):format(node.id, text)
    end
  end
  return lines
end

-- u + off, for a child.
local function moved(address, off)
  return off == 0 and address or ("%s + %s"):format(address, literal(off))
end

-- The other side of what lies at u + at: packed, or of the same layout.
local function other(way, at, packed)
  return way == "copy" and "p + " .. at or packed
end

-- A statement that moves a whole node.
local function all_call(way, node, p, u)
  if node.kind ~= "dense" then return ("%s_all_%d(%s, %s, a);"):format(way, node.id, p, u) end
  local to, from = p, u
  if way == "unpack" then to, from = u, p end
  return ("copy_%d(%s, %s);"):format(node.count, to, from)
end

local function part_call(way, node, p, u, first, past)
  if node.kind == "dense" then
    return ("%s_any(%s, %s + %s, %s - (%s));"):format(way, p, u, first, past, first)
  end
  return ("%s_part_%d(%s, %s, %s, %s, a);"):format(way, node.id, p, u, first, past)
end

local function add(lines, text, ...)
  lines[#lines + 1] = select("#", ...) > 0 and text:format(...) or text
end

-- Where copy i of a repeating node lies, from u.
local function place(node, i)
  if node.kind == "stride" then return ("%s * %s"):format(i, literal(node.step)) end
  if node.kind == "index" then return ("(s64)at_%d[%s]"):format(node.id, i) end
  return ("(s64)((const %s *)a->list[%d].at)[%s] * %d"):format(at_type(node), node.list, i, node.unit)
end

-- Words that each have a line of their own, more lines than the first cache holds: the more of them that one turn of the loop
-- moves, the more lines are on their way. Up to WHOLE in one turn, up to twice as many in two; past what the second cache holds,
-- more than MANY at a time do not help, and what comes from memory goes better by FEW (4 MiB: 1.09 and 1.0 ms).
local WHOLE, MANY, FEW, LINE, CACHED, FETCHED = 64, 32, 8, 64, 4096, 1 << 18
local function words_at_once(count, all)
  local turns = (count + WHOLE - 1) // WHOLE
  return turns <= 2 and (count + turns - 1) // turns or all < FETCHED and MANY or FEW
end

-- Copies that lie in lines of their own.
local function lines_between(node) return node.kind == "stride" and math.abs(node.step) >= LINE end
-- Blocks of such a length in all of the tree.
local function blocks_in_all(node) return (node.whole or 0) // node.child.count end

-- A word is a power of two of bytes, 8 at most.
local function are_lines(node)
  local word = node.child.count
  return lines_between(node) and word <= 8 and word & (word - 1) == 0 and blocks_in_all(node) >= CACHED
end

local function unroll(node)
  local child = node.child
  if child.kind ~= "dense" then return 1 end
  if are_lines(node) then return words_at_once(node.count, blocks_in_all(node)) end
  local n = child.count > INLINE_MAX and 1 or #moves.list(child.count)
  return math.max(1, math.min(8, UNROLLED // n))
end

-- Blocks of 40 bytes in lines of their own, more than the first cache holds: unpacking them goes better with no move across two
-- lines, eight blocks read before the first is written. So many blocks; past that memory decides, and moves as wide as can be
-- are quicker by up to a third. Other lengths gain nothing (12 to 56 B).
local SPLIT = { length = 40, least = 256, most = 1 << 17 }
local function is_split(way, node)
  if way ~= "unpack" or not lines_between(node) or node.child.kind ~= "dense" then return false end
  local blocks = blocks_in_all(node)
  return node.child.count == SPLIT.length and math.abs(node.step) < FAR and blocks >= SPLIT.least and blocks <= SPLIT.most
end

-- Packing blocks that are no power of two word by word, of this C type: so the compiler puts several together before it stores
-- them. While fewer stores wait for memory, more loads do. By bytes of a block; of 40 only while the second cache holds their
-- lines (64 KiB 1.93 us, not 2.05; 1 MiB 72, not 57). Some steps are hidden (templates/host.c).
local GATHERED = {
  [12] = { by = "word", words = 3, least = 1, most = math.maxinteger, hides = true },
  [40] = { by = "number", words = 5, least = 256, most = 1 << 12 },
}
local function gathered(way, node)
  if way ~= "pack" or node.kind ~= "stride" or node.child.kind ~= "dense" or math.abs(node.step) >= FAR then return nil end
  local g, blocks = GATHERED[node.child.count], blocks_in_all(node)
  return g and blocks >= g.least and blocks <= g.most and g or nil
end

local function gather(g, node, lines)
  local hidden = g.hides and "step" or literal(node.step)
  if g.hides then add(lines, "    const s64 step = HIDDEN(%s);", literal(node.step)) end
  add(lines, "    for (s64 k = 0; k < n; k++) {")
  add(lines, "        const %s *const from = (const %s *)(u + %s);", g.by, g.by, moved("(i + k) * " .. hidden, node.child.off))
  add(lines, "        for (s64 j = 0; j < %d; j++) ((%s *)p)[k * %d + j] = from[j];", g.words, g.by, g.words)
  add(lines, "    }")
end

-- Of blocks that are one word, or of a few that are written to memory, the compiler would build vectors by way of the stack,
-- which takes longer than a move each.
local function stays_apart(way, node)
  local child = node.child
  return node.kind == "table" or (child.kind == "dense" and child.count <= (way == "pack" and 8 or 16))
end

-- Unpacking 40 bytes: eight blocks at a time.
local function split(node, lines)
  local to = moved(("u + (i + k) * %s"):format(literal(node.step)), node.child.off)
  add(lines, "    s64 k = 0;")
  add(lines, "    for (; k + 8 <= n; k += 8) split_40(%s, %s, p + k * 40);", to, literal(node.step))
  add(lines, "    for (; k < n; k++) copy_40(%s, p + k * 40);", to)
end

local function fetch_ahead(way, at, lines)
  add(lines, "        __builtin_prefetch(u + %s, %d);", at, way == "unpack" and 1 or 0)
  if way == "copy" then add(lines, "        __builtin_prefetch(p + %s, 1);", at) end
end

-- A loop over copies, straight on.
local function straight(way, node, lines)
  local child = node.child
  local g = gathered(way, node)
  if g then return gather(g, node, lines) end
  if is_split(way, node) then return split(node, lines) end
  local far = child.kind == "dense" and child.count <= INLINE_MAX
    and node.kind == "stride" and math.abs(node.step) >= FAR
  local times = unroll(node)
  local listed = node.kind ~= "stride" and child.kind == "dense" and list.gathers(way, child.count)
  if listed then add(lines, "    LISTED(%d)", times)
  elseif times > 1 then add(lines, "#pragma GCC unroll %d", times) end
  local at = moved(place(node, "(i + k)"), child.off)
  add(lines, "    for (s64 k = 0; k < n; k++) {")
  if far then fetch_ahead(way, place(node, ("(i + k + %d)"):format(AHEAD)), lines) end
  add(lines, "        char *const from = u + %s;", at)
  add(lines, "        %s", all_call(way, child, other(way, at, ("p + k * %s"):format(size(child))), "from"))
  if stays_apart(way, node) then add(lines, "        %s;", listed and "LISTED_EACH" or "ONE_BY_ONE") end
  add(lines, "    }")
end

-- A transposed layout: columns of short blocks that lie beside each other, so that each line of memory holds blocks of
-- several columns. Moved a few columns at a time, row by row.
local function is_turned(node)
  local column = node.child
  if node.kind ~= "stride" or column.kind ~= "stride" or column.child.kind ~= "dense" then return false end
  local near, far = math.abs(node.step), math.abs(column.step)
  return near > 0 and near <= NEAR_MAX and far >= 2 * near and far >= 64 and column.count >= TURN_MIN
    and column.child.count <= near and node.count * near <= far
end

local function turned(way, node, lines)
  local column, block = node.child, node.child.child
  local wide = LINES // math.abs(node.step)
  local at = moved(("(i + k + c) * %s + j * %s"):format(literal(node.step), literal(column.step)), column.off + block.off)
  local function body(count)
    add(lines, "        for (s64 j = 0; j < %s; j++) {", literal(column.count))
    if math.abs(column.step) >= FAR then
      fetch_ahead(way, ("(i + k) * %s + (j + %d) * %s"):format(literal(node.step), AHEAD, literal(column.step)), lines)
    end
    if count == wide then add(lines, "#pragma GCC unroll %d", wide) end
    add(lines, "            for (s64 c = 0; c < %s; c++) {", count)
    add(lines, "                char *const from = u + %s;", at)
    add(lines, "                %s", all_call(way, block, other(way, at, ("p + (k + c) * %s + j * %s"):format(
      literal(column.size), literal(block.size))), "from"))
    add(lines, "            }")
    add(lines, "        }")
  end
  add(lines, "    s64 k = 0;")
  add(lines, "    for (; k + %d <= n; k += %d) {", wide, wide)
  body(wide)
  add(lines, "    }")
  add(lines, "    if (k < n) {")
  body("n - k")
  add(lines, "    }")
end

-- The part of repeating copies: a piece of one, whole ones, a piece. at(i) is where copy i of `child` lies.
local function part_of_copies(way, name, child, at, lines)
  if way == "copy" then return end
  add(lines, "PART void %s_part_%s(char *p, char *u, s64 begin, s64 end, const struct stridec_host *a)", way, name)
  add(lines, "{")
  add(lines, "    const s64 size = %s;", size(child))
  add(lines, "    s64 i = begin / size, first = begin - i * size, n;")
  add(lines, "    if (first) {")
  add(lines, "        const s64 past = end - i * size < size ? end - i * size : size;")
  add(lines, "        %s", part_call(way, child, "p", "u + " .. moved(at "i", child.off), "first", "past"))
  add(lines, "        p += past - first;")
  add(lines, "        if (++i * size >= end) return;")
  add(lines, "    }")
  add(lines, "    n = end / size - i;")
  add(lines, "    if (n > 0) %s_run_%s(p, u, i, n, a);", way, name)
  add(lines, "    p += n * size, i += n;")
  add(lines, "    if (i * size < end) {")
  add(lines, "        %s", part_call(way, child, "p", "u + " .. moved(at "i", child.off), "0LL", "end - i * size"))
  add(lines, "    }")
  add(lines, "}")
  add(lines, "")
end

local emit = {}

function emit.dense(way, node, lines)
  -- Only of the root: other blocks are moved where they are met. It may go on: then all is one piece.
  if node.id ~= 1 or way == "copy" then return end
  add(lines, "PART void %s_part_1(char *p, char *u, s64 begin, s64 end, const struct stridec_host *a)", way)
  add(lines, "{")
  add(lines, "    (void)a;")
  add(lines, "    %s_bytes(p, u + begin, end - begin);", way)
  add(lines, "}")
  add(lines, "")
end

local function repeating(way, node, lines)
  if node.kind == "index" then
    local text = {}
    for i, at in ipairs(node.at) do text[i] = literal(at) end
    if way == "pack" then add(lines, "static const s64 at_%d[] = {%s};", node.id, table.concat(text, ", ")) end
  end
  add(lines, "FAST void %s_run_%d(char *restrict p, char *restrict u, s64 i, s64 n, const struct stridec_host *a)", way,
    node.id)
  add(lines, "{")
  add(lines, "    (void)a;")
  if is_turned(node) then turned(way, node, lines) else straight(way, node, lines) end
  add(lines, "}")
  add(lines, "static inline void %s_all_%d(char *p, char *u, const struct stridec_host *a)", way, node.id)
  add(lines, "{")
  add(lines, "    %s_run_%d(p, u, 0, %s, a);", way, node.id, copies(node))
  add(lines, "}")
  part_of_copies(way, node.id, node.child, function(i) return place(node, i) end, lines)
end
emit.stride, emit.index, emit.table = repeating, repeating, repeating

function emit.seq(way, node, lines)
  add(lines, "static inline void %s_all_%d(char *restrict p, char *restrict u, const struct stridec_host *a)", way,
    node.id)
  add(lines, "{")
  add(lines, "    (void)a;")
  local start, varies = 0, false
  for i, part in ipairs(node.part) do
    local packed = varies and "p" or moved("p", start)
    add(lines, "    %s", all_call(way, part, other(way, literal(part.off), packed), moved("u", part.off)))
    if part.size and not varies then
      start = start + part.size
    elseif i < #node.part and way ~= "copy" then
      add(lines, "    p += %s%s;", not varies and start ~= 0 and literal(start) .. " + " or "", size(part))
      varies = true
    end
  end
  add(lines, "}")
  if way == "copy" then return end
  add(lines, "PART void %s_part_%d(char *p, char *u, s64 begin, s64 end, const struct stridec_host *a)", way, node.id)
  add(lines, "{")
  add(lines, "    s64 start = 0, past = 0;")
  for _, part in ipairs(node.part) do
    add(lines, "    start = past, past += %s;", size(part))
    add(lines, "    if (begin < past && end > start) {")
    add(lines, "        const s64 first = begin > start ? begin - start : 0;")
    add(lines, "        const s64 last = end < past ? end - start : past - start;")
    add(lines, "        %s", part_call(way, part, "p", moved("u", part.off), "first", "last"))
    add(lines, "        p += last - first;")
    add(lines, "    }")
  end
  add(lines, "}")
  add(lines, "")
end

emit.blocks = list.blocks

-- The elements of the call, `extent` apart.
local function elements(way, tree, lines)
  add(lines, "FAST void %s_run_elements(char *restrict p, char *restrict u, s64 i, s64 n,", way)
  add(lines, "                           const struct stridec_host *a)")
  add(lines, "{")
  add(lines, "    const s64 extent = a->extent;")
  if tree.kind == "dense" and tree.count <= 64 then add(lines, "#pragma GCC unroll 8") end
  add(lines, "    for (s64 k = i; k < i + n; k++) {")
  add(lines, "        %s", all_call(way, tree, other(way, "k * extent", ("p + (k - i) * %s"):format(size(tree))), "u + k * extent"))
  add(lines, "    }")
  add(lines, "}")
  local root = { id = "elements", child = tree }
  -- The root's own offset is in the address.
  local bare = setmetatable({ off = 0 }, { __index = tree })
  part_of_copies(way, root.id, bare, function(i) return i .. " * a->extent" end, lines)
end

local FAMILY_WHY = {
  contiguous = "one block an element: a memcpy where elements touch",
  strided = "a chain of strides: loops of constant counts, steps and lengths",
  struct = "a few parts, each written out",
  indexed = "offsets come as data, with the call",
  mixed = "parts written out, and offsets that come as data",
}

local function why(tree, all)
  local lines, lengths = { FAMILY_WHY[tree.family] }, {}
  for bytes in pairs(all.lengths) do lengths[#lengths + 1] = bytes end
  table.sort(lengths)
  for _, bytes in ipairs(lengths) do
    lines[#lines + 1] = ("blocks of %d B: %s"):format(bytes, moves.words(bytes))
  end
  for _, node in ipairs(all.nodes) do
    if gathered("pack", node) then
      lines[#lines + 1] = ("packing blocks of %d B: by words, several blocks before they are stored"):format(node.child.count)
    end
    if is_split("unpack", node) then
      lines[#lines + 1] = ("unpacking blocks of %d B that lie apart: none of the moves across two lines"):format(node.child.count)
    end
    if is_turned(node) then
      lines[#lines + 1] = ("columns %d B apart: %d at a time, row by row"):format(node.step,
        LINES // math.abs(node.step))
    end
  end
  if all.lists > 0 then lines[#lines + 1] = ("%d list%s"):format(all.lists, all.lists > 1 and "s" or "") end
  return lines
end

function host.plan(tree)
  local all = number(tree)
  return { family = tree.family, tree = tree, all = all, why = why(tree, all) }
end

-- The source for a plan; read(name) returns the text of a file of templates/.
function host.source(p, title, read)
  local lengths, code, splits = {}, {}, false
  for bytes in pairs(p.all.lengths) do lengths[#lengths + 1] = { bytes = bytes, lines = moves.lines(bytes) } end
  table.sort(lengths, function(a, b) return a.bytes < b.bytes end)
  for _, way in ipairs { "pack", "unpack", "copy" } do
    local lines = {}
    for i = #p.all.nodes, 1, -1 do
      local node = p.all.nodes[i]
      splits = splits or is_split(way, node)
      emit[node.kind](way, node, lines, p.tree)
    end
    elements(way, p.tree, lines)
    code[way] = lines
  end
  return require "template".render("templates/host.c", read, {
    title = title, family = p.family, lengths = lengths, sizes = size_lines(p.all, p.tree), code = code, splits = splits,
    whole = p.tree.kind ~= "dense" and size(p.tree), goes_on = p.tree.kind == "stride" and size(p.tree.child),
    element = size(p.tree),
  })
end

return host
