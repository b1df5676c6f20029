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

-- Of these there are loops, too, whose offsets count pieces and not units (form_share.c chooses among the same).
local SHARED = { 4, 8, 12, 16, 24 }

-- Pieces that are fetched so many ahead before they are packed, where that is quicker (templates/host.c); of other lengths it was
-- not measured.
local FETCHED = { [24] = 24 }

-- Words that are packed from listed places.
function list.gathers(way, bytes) return way == "pack" and (bytes == 4 or bytes == 8) end

-- A statement that moves n pieces between the places at `at`, ints that count `step` bytes, from u, and p.
function list.listed_call(way, step, bytes, u, at)
  return ("%s_listed(p, %s, %s, n, %d, %d%s);"):format(way, u, at, step, bytes, way == "unpack" and ", a->end" or "")
end

-- Pieces of one length, all that a node has.
function list.is_listed(way, node)
  local child = node.child
  return way ~= "copy" and (node.kind == "table" or node.kind == "index") and child.kind == "dense"
    and child.count <= PIECES[#PIECES] and at_type(node) == "int"
end

-- n pieces of one length, fetched so many ahead on Intel's, or not. Offsets count `step` bytes.
local function loop(way, node, step, bytes, ahead, lines)
  if way ~= "copy" and not ahead and at_type(node) == "int" then
    add(lines, "    %s", list.listed_call(way, step, bytes, "u", "at"))
    return
  end
  local listed = list.gathers(way, bytes)
  add(lines, listed and "    LISTED(16)" or "#pragma GCC unroll 16")
  add(lines, "    for (s64 k = 0; k < n; k++) {")
  if ahead then add(lines, "        FETCH_INTEL(u + (s64)at[k + %d] * %d);", ahead, step) end
  add(lines, "        char *const from = u + (s64)at[k] * %d;", step)
  local other = way == "copy" and ("p + (s64)at[k] * %d"):format(step) or ("p + k * %d"):format(bytes)
  add(lines, "        COPY(%s, %s, %d);", way == "unpack" and "from" or other, way == "unpack" and other or "from", bytes)
  add(lines, "        %s;", listed and "LISTED_EACH" or "ONE_BY_ONE")
  add(lines, "    }")
end

-- The loop of a length: a function of its own, so that a short list pays for no register that another one needs.
local function length_loop(way, node, step, bytes, name, lines)
  add(lines, "PART void %s_%s_%d_%d(char *restrict p, char *restrict u, const %s *restrict at, s64 n,", way, name, node.id, bytes,
    at_type(node))
  add(lines, "                       const struct stridec_host *a)")
  add(lines, "{")
  add(lines, "    (void)a;")
  -- What pieces from memory are written to is fetched ahead (Xeon: 16 MiB 1.2 times as quick).
  if way == "unpack" then
    add(lines, "    if (WRITES_MEMORY(n * %d)) {", bytes)
    loop(way, node, step, bytes, AHEAD, lines)
    add(lines, "    } else {")
    loop(way, node, step, bytes, nil, lines)
    add(lines, "    }")
  else
    loop(way, node, step, bytes, way == "pack" and FETCHED[bytes], lines)
  end
  add(lines, "}")
end

-- One of them: pieces lie at `at`. `shared`: by offsets that count pieces.
local function switch(way, node, lengths, shared, lines)
  local name = shared and "shared" or "pieces"
  local function function_of(bytes) return shared and bytes ~= node.unit and "shared" or "pieces" end
  for _, bytes in ipairs(lengths) do
    if function_of(bytes) == name then length_loop(way, node, shared and bytes or node.unit, bytes, name, lines) end
  end
  add(lines, "PART void %s_%s_%d(char *p, char *u, s64 piece, s64 i, s64 n, const struct stridec_host *a)", way, name, node.id)
  add(lines, "{")
  add(lines, "    const %s *const at = (const %s *)a->list[%d].at + i;", at_type(node), at_type(node), node.list)
  add(lines, "    switch (piece) {")
  for _, bytes in ipairs(lengths) do
    add(lines, "    case %d: %s_%s_%d_%d(p, u, at, n, a); break;", bytes, way, function_of(bytes), node.id, bytes)
  end
  add(lines, "    }")
  add(lines, "}")
end

-- Those that the list's offsets can count.
local function suited(lengths, node)
  local suits = {}
  for _, bytes in ipairs(lengths) do
    if bytes % node.unit == 0 then suits[#suits + 1] = bytes end
  end
  return suits
end

local function pieces(way, node, lines)
  switch(way, node, suited(PIECES, node), false, lines)
  switch(way, node, suited(SHARED, node), true, lines)
  -- n pieces from the section's k'th on, to where u is the address of its origin.
  add(lines, "FAST void %s_some_%d(char *p, char *u, const struct stridec_section *s, s64 k, s64 n, const struct stridec_host *a)", way,
    node.id)
  add(lines, "{")
  add(lines, "    if (s->step == %d) %s_pieces_%d(p, u, s->piece, s->first + k, n, a);", node.unit, way, node.id)
  add(lines, "    else %s_shared_%d(p, u, s->piece, s->first + k, n, a);", way, node.id)
  add(lines, "}")
  if way == "copy" then return end
  add(lines, "PART void %s_section_%d(char *p, char *u, const struct stridec_section *s, s64 begin, s64 end,", way,
    node.id)
  add(lines, "                        const struct stridec_host *a)")
  add(lines, "{")
  add(lines, "    const %s *const at = (const %s *)a->list[%d].at + s->first;", at_type(node), at_type(node), node.list)
  add(lines, "    s64 k = begin / s->piece, first = begin - k * s->piece;")
  add(lines, "    u += s->origin;")
  add(lines, "    if (first) {")
  add(lines, "        const s64 past = end - k * s->piece < s->piece ? end - k * s->piece : s->piece;")
  add(lines, "        %s_any(p, u + (s64)at[k] * s->step + first, past - first);", way)
  add(lines, "        p += past - first;")
  add(lines, "        if (++k * s->piece >= end) return;")
  add(lines, "    }")
  add(lines, "    const s64 n = end / s->piece - k;")
  add(lines, "    %s_some_%d(p, u, s, k, n, a);", way, node.id)
  add(lines, "    k += n, p += n * s->piece;")
  add(lines, "    if (k * s->piece < end) %s_any(p, u + (s64)at[k] * s->step, end - k * s->piece);", way)
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
  add(lines, "    for (; s != past; s++) %s_some_%d(%s, u + s->origin, s, 0, s->count, a);", way, node.id,
    way == "copy" and "p + s->origin" or "p + s->start")
  add(lines, "}")
  -- Most lists are of pieces of one length: for them no register is saved. The only section has no origin (gen/gen.h).
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
