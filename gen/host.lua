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
local code = require "host_code"
local literal = require "index".literal
local list = require "host_list"
local loop = require "host_loop"
local moves = require "moves"
local add, all_call, moved, other, part_call, place, size = code.add, code.all_call, code.moved, code.other, code.part_call,
  code.place, code.size

local host = {}

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
    if way == "pack" then
      add(lines, "static const %s at_%d[] = {%s};", list.at_type(node), node.id, table.concat(text, ", "))
    end
  end
  add(lines, "FAST void %s_run_%d(char *restrict p, char *restrict u, s64 i, s64 n, const struct stridec_host *a)", way,
    node.id)
  add(lines, "{")
  add(lines, "    (void)a;")
  loop.emit(way, node, lines)
  add(lines, "}")
  add(lines, "static inline void %s_all_%d(char *p, char *u, const struct stridec_host *a)", way, node.id)
  add(lines, "{")
  add(lines, "    %s_run_%d(p, u, 0, %s, a);", way, node.id, code.copies(node))
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
  -- GCC 12 makes vectors of several elements' words there, and reads past the last one's end.
  if tree.kind ~= "dense" then add(lines, "        ONE_BY_ONE;") end
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
  for _, node in ipairs(all.nodes) do loop.why(node, lines) end
  if all.lists > 0 then lines[#lines + 1] = ("%d list%s"):format(all.lists, all.lists > 1 and "s" or "") end
  return lines
end

function host.plan(tree)
  local all = code.number(tree)
  return { family = tree.family, tree = tree, all = all, why = why(tree, all) }
end

-- The source for a plan; read(name) returns the text of a file of templates/.
function host.source(p, title, read)
  local lengths, functions, splits, quads, listed, past = {}, {}, false, false, p.all.lists > 0, false
  for bytes in pairs(p.all.lengths) do
    lengths[#lengths + 1] = { bytes = bytes, lines = moves.lines(bytes), past = moves.goes_past(bytes) }
    past = past or moves.goes_past(bytes)
  end
  table.sort(lengths, function(a, b) return a.bytes < b.bytes end)
  for _, way in ipairs { "pack", "unpack", "copy" } do
    local lines = {}
    for i = #p.all.nodes, 1, -1 do
      local node = p.all.nodes[i]
      splits, quads = splits or loop.has_splits(way, node), quads or loop.has_quads(node)
      listed = listed or node.kind == "index"
      emit[node.kind](way, node, lines, p.tree)
    end
    elements(way, p.tree, lines)
    functions[way] = lines
  end
  return require "template".render("templates/host.c", read, {
    title = title, family = p.family, lengths = lengths, sizes = code.size_lines(p.all, p.tree),
    code = functions, splits = splits, quads = quads, lists = listed, past = past,
    whole = p.tree.kind ~= "dense" and size(p.tree), goes_on = p.tree.kind == "stride" and size(p.tree.child),
    element = size(p.tree),
  })
end

return host
