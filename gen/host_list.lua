-- host_list.lua: lists of blocks in code for host memory (host.lua): their offsets come with the call (form_host.c).
local list = {}

local AHEAD = 16            -- blocks that are fetched ahead

local function add(lines, text, ...)
  lines[#lines + 1] = select("#", ...) > 0 and text:format(...) or text
end

function list.count(node) return ("a->list[%d].count"):format(node.list) end

-- The type of a list's entries: gen/form_host.c writes them by the same rules. Few offsets stand in the code.
function list.at_type(node)
  if node.kind == "index" then
    for _, at in ipairs(node.at) do
      if at >= 1 << 31 or at < -(1 << 31) then return "s64" end
    end
    return "int"
  end
  return (node.base == 4 and node.entry == 2 or node.base == 0 and node.entry == 4) and "int" or "s64"
end
function list.start_type(node, tree)
  return tree.bytes // node.unit < 1 << 29 and "int" or "s64"
end

local list_count, at_type, start_type = list.count, list.at_type, list.start_type

-- Lengths of the pieces of one length that short blocks are cut into (form_host.c chooses among the same).
local PIECES = { 4, 8, 12, 16, 20, 24, 32, 40, 48, 64 }

-- Pieces that are fetched so many ahead before they are packed, where that is quicker (templates/host.c); of other lengths it was
-- not measured.
local FETCHED = { [24] = 24 }

-- Words that are packed from listed places.
function list.gathers(way, bytes) return way == "pack" and (bytes == 4 or bytes == 8) end

-- Packed bytes of a call from which on its places are taken to lie in more lines than the first cache holds: there, unpacking goes
-- another way on Intel's (templates/host.c).
local SPREAD = 8192

-- A statement that moves n pieces between the places at `at`, ints, from u, and p.
function list.listed_call(way, node, bytes, u, at)
  local spread = way == "unpack" and (", a->end >= %d"):format(SPREAD) or ""
  return ("%s_listed(p, %s, %s, n, %d, %d%s);"):format(way, u, at, node.unit or 1, bytes, spread)
end

-- Pieces of one length, all that a node has.
function list.is_listed(way, node)
  local child = node.child
  return way ~= "copy" and (node.kind == "table" or node.kind == "index") and child.kind == "dense"
    and child.count <= PIECES[#PIECES] and at_type(node) == "int"
end

-- n pieces of one length, fetched so many ahead on Intel's, or not.
local function loop(way, node, bytes, ahead, lines)
  if way ~= "copy" and not ahead and at_type(node) == "int" then
    add(lines, "    %s", list.listed_call(way, node, bytes, "u", "at"))
    return
  end
  local listed = list.gathers(way, bytes)
  add(lines, listed and "    LISTED(16)" or "#pragma GCC unroll 16")
  add(lines, "    for (s64 k = 0; k < n; k++) {")
  if ahead then add(lines, "        FETCH_INTEL(u + (s64)at[k + %d] * %d);", ahead, node.unit) end
  add(lines, "        char *const from = u + (s64)at[k] * %d;", node.unit)
  local other = way == "copy" and ("p + (s64)at[k] * %d"):format(node.unit) or ("p + k * %d"):format(bytes)
  add(lines, "        COPY(%s, %s, %d);", way == "unpack" and "from" or other, way == "unpack" and other or "from", bytes)
  add(lines, "        %s;", listed and "LISTED_EACH" or "ONE_BY_ONE")
  add(lines, "    }")
end

-- The loop of each length: a function of its own, so that a short list pays for no register that another one needs.
local function loops(way, node, lengths, lines)
  for _, bytes in ipairs(lengths) do
    add(lines, "PART void %s_pieces_%d_%d(char *restrict p, char *restrict u, const %s *restrict at, s64 n,", way, node.id, bytes,
      at_type(node))
    add(lines, "                       const struct stridec_host *a)")
    add(lines, "{")
    add(lines, "    (void)a;")
    -- What pieces from memory are written to is fetched ahead (Xeon: 16 MiB 1.2 times as quick).
    if way == "unpack" then
      add(lines, "    if (WRITES_MEMORY(n * %d)) {", bytes)
      loop(way, node, bytes, AHEAD, lines)
      add(lines, "    } else {")
      loop(way, node, bytes, nil, lines)
      add(lines, "    }")
    else
      loop(way, node, bytes, way == "pack" and FETCHED[bytes], lines)
    end
    add(lines, "}")
  end
end

-- Pieces lie at `at`.
local function pieces(way, node, lines)
  local lengths = {}
  for _, bytes in ipairs(PIECES) do
    if bytes % node.unit == 0 then lengths[#lengths + 1] = bytes end
  end
  loops(way, node, lengths, lines)
  add(lines, "PART void %s_pieces_%d(char *p, char *u, s64 piece, s64 i, s64 n, const struct stridec_host *a)", way, node.id)
  add(lines, "{")
  add(lines, "    const %s *const at = (const %s *)a->list[%d].at + i;", at_type(node), at_type(node), node.list)
  add(lines, "    switch (piece) {")
  for _, bytes in ipairs(lengths) do
    add(lines, "    case %d: %s_pieces_%d_%d(p, u, at, n, a); break;", bytes, way, node.id, bytes)
  end
  add(lines, "    }")
  add(lines, "}")
  if way == "copy" then return end
  add(lines, "PART void %s_section_%d(char *p, char *u, const struct stridec_section *s, s64 begin, s64 end,", way,
    node.id)
  add(lines, "                        const struct stridec_host *a)")
  add(lines, "{")
  add(lines, "    const %s *const at = (const %s *)a->list[%d].at + s->first;", at_type(node), at_type(node), node.list)
  add(lines, "    s64 k = begin / s->piece, first = begin - k * s->piece;")
  add(lines, "    if (first) {")
  add(lines, "        const s64 past = end - k * s->piece < s->piece ? end - k * s->piece : s->piece;")
  add(lines, "        %s_any(p, u + (s64)at[k] * %d + first, past - first);", way, node.unit)
  add(lines, "        p += past - first;")
  add(lines, "        if (++k * s->piece >= end) return;")
  add(lines, "    }")
  add(lines, "    const s64 n = end / s->piece - k;")
  add(lines, "    %s_pieces_%d(p, u, s->piece, s->first + k, n, a);", way, node.id)
  add(lines, "    k += n, p += n * s->piece;")
  add(lines, "    if (k * s->piece < end) %s_any(p, u + (s64)at[k] * %d, end - k * s->piece);", way, node.unit)
  add(lines, "}")
end

-- A block lies at `at` plus its place in the packed stream; block i + 1 starts where block i ends.
function list.blocks(way, node, lines, tree)
  pieces(way, node, lines)
  local starts = ("const %s *const start = a->list[%d].start"):format(start_type(node, tree), node.list)
  local places = ("const %s *const at = a->list[%d].at"):format(at_type(node), node.list)
  add(lines, "FAST void %s_run_%d(char *restrict p, char *restrict u, s64 i, s64 n, const struct stridec_host *a)", way,
    node.id)
  add(lines, "{")
  add(lines, "    %s;", starts)
  add(lines, "    %s;", places)
  add(lines, "    for (s64 k = i; k < i + n; k++) {")
  add(lines, "        const s64 bytes = ((s64)start[k + 1] - start[k]) * %d;", node.unit)
  add(lines, "        __builtin_prefetch(u + ((s64)at[k + %d] + start[k + %d]) * %d, %d);", AHEAD, AHEAD, node.unit,
    way == "unpack" and 1 or 0)
  add(lines, "        char *const from = u + ((s64)at[k] + start[k]) * %d;", node.unit)
  if way == "copy" then
    add(lines, "        copy_any(p + (from - u), from, bytes);")
  else
    add(lines, "        %s_any(p, from, bytes);", way)
    add(lines, "        p += bytes;")
  end
  add(lines, "    }")
  add(lines, "}")
  add(lines, "PART void %s_sections_%d(char *p, char *u, const struct stridec_host *a)", way, node.id)
  add(lines, "{")
  add(lines, "    const struct stridec_section *s = a->list[%d].section, *past = s + a->list[%d].sections;", node.list,
    node.list)
  add(lines, "    if (!s) %s_run_%d(p, u, 0, %s, a);", way, node.id, list_count(node))
  add(lines, "    for (; s != past; s++) %s_pieces_%d(%s, u, s->piece, s->first, s->count, a);", way, node.id,
    way == "copy" and "p" or "p + s->start")
  add(lines, "}")
  -- Most lists are of pieces of one length: for them no register is saved.
  add(lines, "static inline void %s_all_%d(char *p, char *u, const struct stridec_host *a)", way, node.id)
  add(lines, "{")
  add(lines, "    const struct stridec_section *const s = a->list[%d].section;", node.list)
  add(lines, "    if (a->list[%d].sections == 1) %s_pieces_%d(p, u, s->piece, s->first, s->count, a);", node.list, way, node.id)
  add(lines, "    else %s_sections_%d(p, u, a);", way, node.id)
  add(lines, "}")
  if way == "copy" then return end
  add(lines, "PART void %s_part_%d(char *p, char *u, s64 begin, s64 end, const struct stridec_host *a)", way, node.id)
  add(lines, "{")
  add(lines, "    %s;", starts)
  add(lines, "    %s;", places)
  add(lines, "    const struct stridec_section *s = a->list[%d].section, *last = s + a->list[%d].sections;", node.list,
    node.list)
  add(lines, "    for (; s != last; s++) {")
  add(lines, "        const s64 past = section_end(s);")
  add(lines, "        const s64 from = begin > s->start ? begin : s->start, to = end < past ? end : past;")
  add(lines, "        if (from < to)")
  add(lines, "            %s_section_%d(p + (from - begin), u, s, from - s->start, to - s->start, a);", way, node.id)
  add(lines, "    }")
  add(lines, "    if (!start) return;")
  add(lines, "    s64 low = 0, high = %s;", list_count(node))
  add(lines, "    while (high - low > 1) {")
  add(lines, "        const s64 middle = low + (high - low) / 2;")
  add(lines, "        if ((s64)start[middle] * %d <= begin) low = middle; else high = middle;", node.unit)
  add(lines, "    }")
  add(lines, "    for (s64 k = low; k < %s && begin < end; k++) {", list_count(node))
  add(lines, "        const s64 stop = (s64)start[k + 1] * %d, past = stop < end ? stop : end;", node.unit)
  add(lines, "        %s_any(p, u + (s64)at[k] * %d + begin, past - begin);", way, node.unit)
  add(lines, "        p += past - begin, begin = past;")
  add(lines, "    }")
  add(lines, "}")
  add(lines, "")
end

return list
