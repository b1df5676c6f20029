-- host_loop.lua: the loops over a node's copies in code for host memory (host.lua): so many at a time, straight on or turned, by
-- the moves that were quickest.
local code = require "host_code"
local index = require "index"
local list = require "host_list"
local moves = require "moves"
local turn = require "host_turn"
local INLINE_MAX = moves.INLINE_MAX
local literal = index.literal
local add, all_call, moved, other, place, size = code.add, code.all_call, code.moved, code.other, code.place, code.size

local loop = {}

local UNROLLED = 16         -- moves in the body of a loop
local FAR = 1024            -- bytes between short blocks, from which on the processor does not fetch ahead by itself
local AHEAD = 16            -- blocks that are fetched ahead
local FROM_MEMORY = 1 << 17 -- blocks in lines of their own, from which on memory decides

-- Where the lines that blocks are written to are fetched ahead: lengths, bytes from one block to the next, and blocks in all of
-- the tree, least and most of each; `by` says on which processors (templates/host.c). Intel's gain most where memory decides (16
-- MiB of 8 to 64 B 1.1 to 2 times as quick), and lose with long blocks; what lies pages apart is quicker without everywhere, as
-- pages are looked up for each fetch (64 KiB of 8 B, 4 KiB apart: 37 us, not 48, EPYC; 43, not 66, Xeon).
local WRITTEN = {
  { length = { 1, 32 }, step = { FAR, 2 * FAR - 1 }, by = "ANY" },
  { length = { 33, 95 }, step = { FAR, 2 * FAR - 1 }, by = "OTHERS" },
  { length = { 96, INLINE_MAX }, step = { FAR, math.maxinteger }, by = "OTHERS" },
  { length = { 1, 64 }, step = { 128, FAR - 1 }, least = FROM_MEMORY, by = "INTEL" },
}

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
local SPLIT = { length = 40, least = 256, most = FROM_MEMORY }
function loop.is_split(way, node)
  if way ~= "unpack" or not lines_between(node) or node.child.kind ~= "dense" then return false end
  local blocks = blocks_in_all(node)
  return node.child.count == SPLIT.length and math.abs(node.step) < FAR and blocks >= SPLIT.least and blocks <= SPLIT.most
end

-- Packing blocks that are no power of two word by word, of this C type: so the compiler puts several together before it stores
-- them. While fewer stores wait for memory, more loads do. By bytes of a block; of 40 only while the second cache holds their
-- lines (64 KiB 1.93 us, not 2.05; 1 MiB 72, not 57).
local GATHERED = {
  [12] = { by = "word", words = 3, least = 1, most = math.maxinteger },
  [40] = { by = "number", words = 5, least = 256, most = 1 << 12 },
}
local function gathered(way, node)
  if way ~= "pack" or node.kind ~= "stride" or node.child.kind ~= "dense" or math.abs(node.step) >= FAR then return nil end
  local g, blocks = GATHERED[node.child.count], blocks_in_all(node)
  return g and blocks >= g.least and blocks <= g.most and g or nil
end

-- A loop over copies by single words of a type of C, either way. `hide`: what keeps the step from the compiler (templates/host.c),
-- or nil.
local function by_words(way, g, hide, node, lines)
  local step = literal(node.step)
  local at = moved("(i + k) * " .. (hide and "step" or step), node.child.off)
  if hide then add(lines, "    const s64 step = %s(%s);", hide, step) end
  add(lines, "    for (s64 k = 0; k < n; k++) {")
  if way == "pack" then
    add(lines, "        const %s *const from = (const %s *)(u + %s);", g.by, g.by, at)
    add(lines, "        for (s64 j = 0; j < %d; j++) ((%s *)p)[k * %d + j] = from[j];", g.words, g.by, g.words)
  else
    add(lines, "        %s *const to = (%s *)(u + %s);", g.by, g.by, at)
    add(lines, "        for (s64 j = 0; j < %d; j++) to[j] = ((const %s *)p)[k * %d + j];", g.words, g.by, g.words)
  end
  add(lines, "    }")
end

-- Some steps of 12 B are hidden: from memory (4 MiB 2.7 ms, not 3.2, EPYC), and powers of two on Intel's, of which the compiler
-- makes too much (400 blocks 64 B apart 0.35 us, not 0.79; others 1.0 to 2.2 times slower).
local function gather(g, node, lines)
  local hide = nil
  if g.by == "word" then
    local apart = math.abs(node.step)
    hide = blocks_in_all(node) >= FROM_MEMORY and "HIDE" or apart >= 32 and apart & (apart - 1) == 0 and "HIDDEN"
  end
  by_words("pack", g, hide, node, lines)
end

-- The same on Intel's, where templates/host.c has VECTORS (Sapphire Rapids and later, GCC 12 and 13). 24 B word by word: blocks
-- multiples of 32 B apart 1.0 to 2.4 times as quick, others up to 2 while the first cache holds them. 40 B word by word
-- where blocks share lines, and else four blocks in five stores (16 to 256 KiB 1.2 to 2 times as quick, longer ones 0.9 to 1.3).
local NUMBERS = { [24] = { by = "number", words = 3 }, [40] = { by = "number", words = 5 } }
local NEAR = 1024           -- blocks of 24 B that the first cache holds
local function vectors(way, node)
  if way ~= "pack" or node.kind ~= "stride" or node.child.kind ~= "dense" then return nil end
  local bytes, step = node.child.count, math.abs(node.step)
  if bytes == 24 and step < FAR and (step % 32 == 0 or step % 8 == 0 and blocks_in_all(node) <= NEAR) then return "words" end
  return bytes == 40 and (step < LINE and "words" or "quads") or nil
end

local function quads(node, lines)
  add(lines, "    quads_40(p, u + %s, %s, n);", moved(place(node, "i"), node.child.off), literal(node.step))
end

-- The same on AMD's, by bytes of a block, and blocks in all of the tree, least and most: as on Intel's; word by word, mostly with
-- a step that the compiler is not to know; or split (below). EPYC of the fourth generation, blocks 720 B apart, ns beside single
-- moves: packing 102 blocks of 24 B 55, not 78; of 40 B 102 by quads 47, not 78, 26,214 word by word 44,400, not 50,300;
-- unpacking 102 of these 56, not 76, 6,553 8,160, not 8,790 (split), 300,000 split 1,990,000, not 2,190,000 (nearer ones take
-- longer so).
local MANY_BLOCKS = 1 << 14
local AMD = {
  { way = "pack", bytes = 24, least = 1, most = math.maxinteger, by = "hidden words" },
  { way = "pack", bytes = 40, least = 1, most = 255, by = "quads" },
  { way = "pack", bytes = 40, least = 256, most = MANY_BLOCKS - 1, by = "words" },
  { way = "pack", bytes = 40, least = MANY_BLOCKS, most = math.maxinteger, by = "hidden words" },
  { way = "unpack", bytes = 40, least = 1, most = MANY_BLOCKS - 1, by = "hidden words" },
  { way = "unpack", bytes = 40, least = FROM_MEMORY, most = math.maxinteger, step = 256, by = "split" },
}
local AMD_WORDS = { quads = "four in five stores", words = "by words", split = "none of the moves across two lines",
  ["hidden words"] = "by words, by a step that the compiler does not know" }
local A_FEW = 8             -- copies of a loop, of which the compiler makes vectors
local function on_amd(way, node)
  if node.kind ~= "stride" or node.child.kind ~= "dense" or math.abs(node.step) >= FAR or node.count < A_FEW then return nil end
  local blocks = blocks_in_all(node)
  for _, r in ipairs(AMD) do
    if r.way == way and r.bytes == node.child.count and r.least <= blocks and blocks <= r.most
      and math.abs(node.step) >= (r.step or 0) then return r.by end
  end
end

-- Packing strided words of a type of C: two are put together before they are stored (1 to 4 KiB of 8 B 1.1 to 2.1 times as
-- quick, of 4 B 1.0 to 1.9; 1 MiB of 8 B 1.2 on AMD). Not where each is fetched ahead, nor where all comes from memory.
local PAIRED = { [4] = "word", [8] = "number" }
local function paired(way, node)
  return way == "pack" and node.kind == "stride" and node.child.kind == "dense" and math.abs(node.step) < FAR
    and PAIRED[node.child.count] ~= nil and blocks_in_all(node) < FETCHED
end

local function pairs_of_words(node, times, lines)
  local bytes, step = node.child.count, literal(node.step)
  local at = moved(place(node, "(i + k)"), node.child.off)
  add(lines, "    s64 k = 0;")
  add(lines, "#pragma GCC unroll %d", math.max(1, times // 2))
  add(lines, "    for (; k + 2 <= n; k += 2) {")
  add(lines, "        const char *const from = u + %s;", at)
  add(lines, "        two_%ss(p + k * %d, from, from + %s);", PAIRED[bytes], bytes, step)
  add(lines, "        ONE_BY_ONE;")
  add(lines, "    }")
  add(lines, "    if (k < n) copy_%d(p + k * %d, u + %s);", bytes, bytes, at)
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

-- Fetches ahead what is read from blocks or written to them, `at` from u (and p, of a copy).
local function fetch_ahead(way, node, at, lines)
  local child, step = node.child, node.kind == "stride" and math.abs(node.step) or 0
  if child.kind ~= "dense" or child.count > INLINE_MAX then return end
  local function within(range, n) return range[1] <= n and n <= range[2] end
  if way ~= "unpack" and step >= FAR then add(lines, "        FETCH_ANY(u + %s);", at) end
  if way == "pack" then return end
  for _, w in ipairs(WRITTEN) do
    if within(w.length, child.count) and within(w.step, step) and blocks_in_all(node) >= (w.least or 0) then
      add(lines, "        FETCH_%s(%s + %s);", w.by, way == "copy" and "p" or "u", at)
    end
  end
end

-- A loop over copies, straight on, on any processor.
local function plain(way, node, lines)
  local child = node.child
  local g = gathered(way, node)
  if g then return gather(g, node, lines) end
  if loop.is_split(way, node) then return split(node, lines) end
  if list.is_listed(way, node) then
    local at = node.kind == "index" and ("at_%d + i"):format(node.id) or ("(const int *)a->list[%d].at + i"):format(node.list)
    return add(lines, "    %s", list.listed_call(way, node.unit or 1, child.count, moved("u", child.off), at))
  end
  local times = unroll(node)
  if paired(way, node) then return pairs_of_words(node, times, lines) end
  local listed = node.kind ~= "stride" and child.kind == "dense" and list.gathers(way, child.count)
  if listed then add(lines, "    LISTED(%d)", times)
  elseif times > 1 then add(lines, "#pragma GCC unroll %d", times) end
  local at = moved(place(node, "(i + k)"), child.off)
  add(lines, "    for (s64 k = 0; k < n; k++) {")
  fetch_ahead(way, node, place(node, ("(i + k + %d)"):format(AHEAD)), lines)
  add(lines, "        char *const from = u + %s;", at)
  add(lines, "        %s", all_call(way, child, other(way, at, ("p + k * %s"):format(size(child))), "from"))
  if stays_apart(way, node) then add(lines, "        %s;", listed and "LISTED_EACH" or "ONE_BY_ONE") end
  add(lines, "    }")
end

-- What `vectors` and `on_amd` name.
local function named(by, way, node, lines)
  if by == "quads" then return quads(node, lines) end
  if by == "split" then return split(node, lines) end
  by_words(way, NUMBERS[node.child.count], by == "hidden words" and "HIDE" or nil, node, lines)
end

-- What the code has to bring along.
function loop.has_quads(node) return vectors("pack", node) == "quads" or on_amd("pack", node) == "quads" end
function loop.has_splits(way, node) return loop.is_split(way, node) or on_amd(way, node) == "split" end

local function straight(way, node, lines)
  local intel, amd = vectors(way, node), on_amd(way, node)
  if intel then
    add(lines, "#ifdef VECTORS")
    named(intel, way, node, lines)
  end
  if amd then
    add(lines, intel and "#elif defined AMD" or "#ifdef AMD")
    named(amd, way, node, lines)
  end
  if intel or amd then add(lines, "#else") end
  plain(way, node, lines)
  if intel or amd then add(lines, "#endif") end
end

-- Of the copies from the i'th on, as host.lua's WAY_run_N has them.
function loop.emit(way, node, lines)
  if turn.suits(node) then turn.emit(way, node, lines) else straight(way, node, lines) end
end

-- What of it a reader is told.
function loop.why(node, lines)
  if gathered("pack", node) then
    add(lines, "packing blocks of %d B: by words, several blocks before they are stored", node.child.count)
  end
  for _, way in ipairs { "pack", "unpack" } do
    local by = on_amd(way, node)
    if by then add(lines, "%sing blocks of %d B on AMD's: %s", way, node.child.count, AMD_WORDS[by]) end
  end
  if loop.is_split("unpack", node) then
    add(lines, "unpacking blocks of %d B that lie apart: none of the moves across two lines", node.child.count)
  end
  turn.why(node, lines)
end

return loop
