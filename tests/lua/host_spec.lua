-- host_spec.lua: code for data in host memory.
package.path = "tests/lua/?.lua;" .. package.path
local host = require "host"
local moves = require "moves"
local trees = require "trees"
local dense, stride = trees.dense, trees.stride

local function read(name)
  local file = io.open(name)
  return file and file:read("a")
end

local function source(tree, family)
  tree.family, tree.bytes = family or "strided", tree.size or 1 << 20
  return host.source(host.plan(tree), "a title", read)
end

local function count(text, pattern)
  local n = 0
  for _ in text:gmatch(pattern) do n = n + 1 end
  return n
end

describe("host", function()
  it("moves each byte of a block, none past it, by few moves", function()
    for bytes = 1, 512 do
      local seen, list = {}, moves.list(bytes)
      for _, m in ipairs(list) do
        assert.is_true(m.at >= 0 and m.at + m.bytes <= bytes, bytes)
        assert.equal(0, m.bytes & (m.bytes - 1))
        for i = m.at, m.at + m.bytes - 1 do seen[i] = true end
      end
      for i = 0, bytes - 1 do assert.is_true(seen[i], bytes) end
      assert.is_true(#list <= bytes // 64 + (bytes == 40 and 3 or 2), bytes)
    end
  end)

  it("moves a power of two at once, and overlaps where that saves a move", function()
    assert.same({ { at = 0, bytes = 32 } }, moves.list(32))
    assert.same({ { at = 0, bytes = 8 }, { at = 8, bytes = 4 } }, moves.list(12))
    assert.same({ { at = 0, bytes = 64 }, { at = 36, bytes = 64 } }, moves.list(100))
  end)

  it("has counts, steps and lengths as constants", function()
    local text = source(stride(100, 4096, stride(5, -96, dense(12), 7)))
    assert.matches("u %+ k %* 4096LL", (text:gsub("%(i %+ k%)", "k")))
    assert.matches("%(i %+ k%) %* %-96LL", text)
    assert.matches("pack_run_2%(p, u, 0, 5LL, a%)", text)
    assert.matches("COPY%(to %+ 8, from %+ 8, 4%);", text)
    assert.matches("%+ 7LL", text)
  end)

  it("has both ways, and an entry for each", function()
    local text = source(stride(3, 16, dense(8)))
    assert.matches("void stridec_host_pack%(const struct stridec_host %*a%)", text)
    assert.matches("void stridec_host_copy%(const struct stridec_host %*a%)", text)
    assert.matches("void stridec_host_unpack%(const struct stridec_host %*a%)", text)
    assert.matches("two_numbers%(p %+ k %* 8, from, from %+ 16LL%);", text)
    assert.matches("copy_8%(from, p %+ k %* 8LL%);", text)
  end)

  local function loop(way, text) return text:match("FAST void " .. way .. "_run_1.-\n}") end

  it("fetches short blocks ahead where they lie far apart, before it writes them only in so far as that is quicker", function()
    local function fetches(way, tree) return loop(way, source(tree)):match("FETCH_%w+%([^;]*%)") end
    local many = 1 << 17
    for _, c in ipairs {
      { stride(30, 64, dense(8)) }, { stride(30, -1024, dense(8)), "FETCH_ANY", "FETCH_ANY" },
      { stride(30, 2048, dense(32)), "FETCH_ANY" }, { stride(30, 2047, dense(40)), "FETCH_ANY", "FETCH_OTHERS" },
      { stride(30, 2048, dense(40)), "FETCH_ANY" }, { stride(30, 4096, dense(96)), "FETCH_ANY", "FETCH_OTHERS" },
      { stride(many, 128, dense(64)), nil, "FETCH_INTEL" }, { stride(many - 1, 128, dense(64)) },
      { stride(many, 128, dense(65)) }, { stride(many, 127, dense(8)) }, { stride(30, 1 << 20, dense(4096)) },
    } do
      for way, by in pairs { pack = c[2] or false, unpack = c[3] or false } do
        local wanted = by and ("%s(u + (i + k + 16) * %dLL)"):format(by, c[1].step)
        assert.equal(wanted or nil, fetches(way, c[1]))
      end
    end
    assert.matches("FETCH_ANY%(u .-FETCH_ANY%(p ", loop("copy", source(stride(30, 1040, dense(8)))))
    assert.not_matches("FETCH", loop("copy", source(stride(30, 512, dense(8)))))
  end)

  it("unpacks 40 bytes without a move across two lines where many blocks lie apart, and not from memory", function()
    assert.equal(2, count(loop("unpack", source(stride(600, 720, dense(40)))), "_40%("))
    assert.equal(1, count(loop("unpack", source(stride(600, -720, dense(40)))), "split_40%("))
    for _, other in ipairs { stride(600, 16, dense(12)), stride(600, 128, dense(24)), stride(200, 720, dense(40)),
      stride(600, 4096, dense(40)), stride(1 << 18, 128, dense(40)) } do
      assert.equal(0, count(source(other), "split_40"))
    end
    assert.equal(0, count(loop("pack", source(stride(600, 720, dense(40)))), "split_40"))
  end)

  it("packs blocks of 12 bytes word by word, and those of 40 while the second cache holds their lines", function()
    assert.equal(1, count(loop("pack", source(stride(10, 128, dense(12)))), "%(word %*%)p%)%[k %* 3 %+ j%]"))
    assert.equal(1, count(loop("pack", source(stride(10, -128, dense(12)))), "step = HIDDEN%(%-128LL%)"))
    assert.equal(2, count(loop("pack", source(stride(600, 720, dense(40)))), "%(number %*%)p%)%[k %* 5 %+ j%]"))   -- also AMD's
    assert.equal(1, count(loop("pack", source(stride(1 << 17, 128, dense(12)))), "step = HIDE%(128LL%)"))
    assert.equal(0, count(loop("pack", source(stride(600, 720, dense(40)))), "HIDDEN"))
    for _, other in ipairs { stride(10, 4096, dense(12)), stride(200, 720, dense(40)), stride(600, 4096, dense(40)) } do
      assert.equal(0, count(loop("pack", source(other)), "j < "))
    end
    assert.equal(1, count(loop("pack", source(stride(5000, 720, dense(40)))), "j < "))   -- AMD's alone
    assert.equal(0, count(loop("unpack", source(stride(10, 128, dense(12)))), "j < "))
  end)

  it("puts two packed words together before it stores them, but where each is fetched ahead or all comes from memory", function()
    local function pairs_of(tree) return loop("pack", source(tree)):match("two_(%l+)%(") end
    assert.equal("words", pairs_of(stride(10, -128, dense(4))))
    assert.equal("numbers", pairs_of(stride(10, 24, dense(8))))
    assert.equal("numbers", pairs_of(stride((1 << 18) - 1, 64, dense(8))))
    for _, other in ipairs { stride(10, 24, dense(16)), stride(10, 24, dense(2)), stride(10, 1024, dense(8)),
      stride(1 << 18, 64, dense(8)) } do
      assert.equal(nil, pairs_of(other))
    end
    assert.equal(0, count(loop("unpack", source(stride(10, 24, dense(8)))), "two_"))
    assert.equal(0, count(loop("copy", source(stride(10, 24, dense(8)))), "two_"))
  end)

  it("puts the words of short blocks together, where vectors are quicker, and elsewhere moves them as ever", function()
    local function vectors(way, length, step, count)
      return loop(way, source(trees.whole(stride(count or 100, step, dense(length)), "strided"))):match("#ifdef VECTORS\n(.-)#el.-#endif")
    end
    for _, step in ipairs { 32, 96, 720, -160 } do assert.matches("j < 3; j%+%+%) %(%(number %*%)p%)", vectors("pack", 24, step)) end
    for _, step in ipairs { 28, 1024 } do assert.equal(nil, vectors("pack", 24, step)) end
    assert.equal(nil, vectors("pack", 24, 720, 2000))
    assert.matches("j < 3;", vectors("pack", 24, 96, 2000))
    assert.matches("j < 5; j%+%+%) %(%(number %*%)p%)", vectors("pack", 40, 48))
    assert.equal("    quads_40(p, u + i * 720LL, 720LL, n);\n", vectors("pack", 40, 720))
    for _, length in ipairs { 12, 16, 32, 48 } do assert.equal(nil, vectors("pack", length, 96)) end
    for _, way in ipairs { "unpack", "copy" } do
      assert.equal(nil, vectors(way, 24, 96))
      assert.equal(nil, vectors(way, 40, 96))
    end
    assert.equal(1, count(source(stride(100, 720, dense(40))), "FAST void quads_40"))
    assert.equal(0, count(source(stride(600, 48, dense(40))), "quads_40"))
  end)

  it("moves blocks of 24 and 40 bytes on AMD's by what is quicker there", function()
    local function amd(way, length, step, count)
      return loop(way, source(trees.whole(stride(count or 100, step, dense(length)), "strided"))):match(" AMD\n(.-)#else\n.-#endif")
    end
    local many, memory = 1 << 14, 1 << 17
    for _, c in ipairs { { 24, 28 }, { 24, 720, memory }, { 40, 720, many }, { 40, -720, memory } } do
      assert.matches(("step = HIDE%%(%%-?%dLL%%);.-j < %d; j%%+%%+%%) %%(%%(number %%*%%)p%%)"):format(math.abs(c[2]), c[1] // 8),
        amd("pack", table.unpack(c)))
    end
    for _, c in ipairs { { 256, 48 }, { many - 1, 720 } } do
      local words = amd("pack", 40, c[2], c[1])
      assert.matches("j < 5", words)
      assert.not_matches("HIDE", words)
    end
    for _, step in ipairs { 48, -720 } do assert.equal(("    quads_40(p, u + i * %dLL, %dLL, n);\n"):format(step, step), amd("pack", 40, step, 255)) end
    for _, blocks in ipairs { 8, many - 1 } do
      assert.matches("step = HIDE%(720LL%);.-number %*const to = .-to%[j%] = %(%(const number %*%)p%)%[k %* 5 %+ j%]", amd("unpack", 40, 720, blocks))
    end
    assert.matches("split_40%(", amd("unpack", 40, 256, memory))
    for _, c in ipairs { { "pack", 24, 1024 }, { "pack", 40, 720, 7 }, { "pack", 32, 720 }, { "unpack", 24, 720 },
      { "unpack", 40, 720, many }, { "unpack", 40, 255, memory + 1 }, { "copy", 40, 720 } } do
      assert.equal(nil, amd(table.unpack(c)))
    end
    assert.equal(1, count(source(stride(100, 48, dense(40))), "FAST void quads_40"))
    assert.equal(1, count(source(stride(memory + 1, 720, dense(40))), "FAST void split_40"))
  end)

  it("moves pieces of one length from listed places, ints, in a few ways by processor, and others one by one", function()
    local long = trees.list(0, dense(8))
    long.entry = 2
    local far = trees.index({ 0, 24, 1 << 31 }, dense(8))
    local LISTED = "%s_listed%%(p, u, %s %%+ i, n, %d, %d%s%%);"
    for _, bytes in ipairs { 4, 8, 12, 16 } do
      local few, many = source(trees.index({ 0, 24, 40 }, dense(bytes)), "indexed"), source(trees.list(0, dense(bytes)), "indexed")
      for way, all in pairs { pack = "", unpack = ", a%->end" } do
        assert.matches(LISTED:format(way, "%(const int %*%)a%->list%[0%].at", 8, bytes, all), loop(way, many))
        assert.matches(LISTED:format(way, "at_1", 1, bytes, all), loop(way, few))
      end
      assert.equal(0, count(loop("copy", few) .. loop("copy", many), "listed"))
      assert.equal(1, count(few, "static const int at_1"))
    end
    assert.equal(1, count(source(far, "indexed"), "static const s64 at_1"))
    assert.equal(1, count(loop("pack", source(far, "indexed")), "LISTED_EACH"))
    assert.equal(0, count(loop("unpack", source(far, "indexed")), "LISTED"))
    assert.equal(1, count(loop("pack", source(long, "indexed")), "LISTED_EACH"))
    assert.equal(0, count(loop("pack", source(trees.list(0, dense(65)), "indexed")), "pack_listed"))
    local text = source(trees.blocks(8), "indexed")
    local function pieces(way, bytes) return text:match(("PART void %s_pieces_1_%d%%(.-\n}"):format(way, bytes)) end
    for way, all in pairs { pack = "", unpack = ", a%->end" } do
      assert.equal(1, count(pieces(way, 16), way .. "_listed%(p, u, at, n, 8, 16" .. all .. "%);"))
    end
    assert.not_matches("pack_listed", source(stride(600, 24, dense(8))))
    assert.matches("FETCH_INTEL%(u %+ %(s64%)at%[k %+ 24%] %* 8%);\n[^\n]+\n%s+COPY%(p %+ k %* 24,", pieces("pack", 24))
    local lengths = { 8, 16, 24, 32, 40, 48, 64 }
    for _, bytes in ipairs(lengths) do
      assert.not_matches("FETCH_INTEL%(u", pieces("copy", bytes))
      assert.matches(("if %%(WRITES_MEMORY%%(n %%* %d%%)%%) {\n#pragma[^\n]+\n%%s+for [^\n]+\n%%s+FETCH_INTEL%%(u %%+ %%(s64%%)at%%[k %%+ 16%%] %%* 8%%)"):format(bytes),
        pieces("unpack", bytes))
    end
    for _, way in ipairs { "pack", "unpack", "copy" } do
      local function cases(name) return text:match(("PART void %s_%s_1%%(.-\n}"):format(way, name)) end
      assert.equal(#lengths, count(cases("pieces"), ("case (%%d+): %s_pieces_1_%%1%%(p, u, at, n, a%%); break;"):format(way)))
      -- Offsets that count pieces: of a length that is the unit's they count both.
      assert.matches(("case 8: %s_pieces_1_8%%("):format(way), cases("shared"))
      assert.equal(2, count(cases("shared"), ("case (%%d+): %s_shared_1_%%1%%(p, u, at, n, a%%); break;"):format(way)))
      assert.matches("at%[k[^%]]*%] %* 24[^\n]", text:match(("PART void %s_shared_1_24%%(.-\n}"):format(way)))
      assert.equal(1, count(text, ("sections == 1%%) %s_pieces_1%%(p, u, s%%->piece, s%%->first, s%%->count, a%%);\n    else %s_sections_1%%("):format(way, way)))
    end
    -- A child that repeats words is no word, however often.
    assert.equal(0, count(loop("pack", source(trees.index({ 0, 240, 400 }, stride(4, 24, dense(8))), "mixed")), "LISTED"))
  end)

  it("moves longer blocks to whole lines, on Intel's from 256 B on", function()
    local text = source(trees.seq(dense(255), dense(256), dense(513)))
    assert.matches("#ifdef __AVX512FP16__.-#define ALIGNS 1\n.-#else.-#define ALIGNS 0\n", text)
    local function copy(bytes) return text:match(("FAST void copy_%d%%(.-\n}"):format(bytes)) end
    assert.matches("if %(ALIGNS%) { copy_lines%(to, from, 256%); return; }\n%s+COPY", copy(256))
    assert.not_matches("ALIGNS", copy(255) .. copy(513))
    assert.matches("if %(ALIGNS%)", source(trees.seq(dense(512), dense(8))):match("FAST void copy_512%(.-\n}"))
  end)

  it("stores long blocks past the caches in long calls, and says so", function()
    local tree = trees.whole(stride(9, 20000, trees.seq(dense(511), dense(512, 600), dense(4097, 2000))), "mixed")
    local text = source(tree)
    local function copy(bytes) return text:match(("FAST void copy_%d(%%(.-\n})"):format(bytes)) end
    assert.not_matches("past", copy(511))
    assert.matches("int past%).-if %(past%) { copy_past%(to, from, 512%); return; }.-COPY", copy(512))
    assert.matches("if %(past%) { copy_past%(to, from, 4097%); return; }\n%s+copy_long%(to, from, 4097%);", copy(4097))
    assert.equal(5, count(text, "    PAST_END%(a%);"))   -- wherever an entry ends: one element, and others, either way; copying
    local why = table.concat(host.plan(tree).why, "\n")
    assert.matches("blocks of 4097 B: memcpy, on AMD's processors whole cache lines; in long calls, on AMD's processors past the caches\n", why .. "\n")
    assert.not_matches("past the caches", why:match("blocks of 511 B[^\n]*"))
    assert.not_matches("copy_past", source(stride(9, 600, dense(256))))
  end)

  it("turns columns that lie beside each other", function()
    local function columns(near, far, rows) return stride(64, near, stride(rows, far, dense(near))) end
    local function why(tree) return table.concat(host.plan(trees.whole(tree, "strided")).why, "\n") .. "\n" end
    local WIDE = "8 by 1 (Intel's: 16 by 1, then 8 by 1) unpacking"
    for tree, tiles in pairs {
      [columns(16, 8192 + 16, 64)] = "4 by 4 blocks packing, of " .. WIDE,
      [columns(16, 8192 + 16, 512)] = "4 by 4 (Intel's: 8 by 8, then 4 by 8, then 1 by 8) blocks packing, of " .. WIDE,
      [columns(16, 8192 + 512, 64)] = "4 by 4 (Intel's: 8 by 8, then 4 by 8, then 1 by 8) blocks packing, of " .. WIDE,
      [columns(16, 8192, 64)] = "8 by 1 (Intel's: 8 by 8, then 4 by 8, then 1 by 8) blocks packing, of " .. WIDE,
      [columns(4, -8192, 64)] = "16 by 4 blocks packing, of 16 by 1 (Intel's: 32 by 1, then 16 by 1, then 8 by 1) unpacking",
      [stride(20, 4, stride(64, 8192, dense(4)))] = "16 by 4 blocks packing, of 16 by 1 (Intel's: 16 by 1, then 8 by 1) unpacking",
      [stride(12, 16, stride(64, 8192 + 16, dense(16)))] = "4 by 4 blocks packing, of 8 by 1 unpacking",
    } do assert.equal(1, select(2, why(tree):gsub(("in tiles of " .. tiles .. "\n"):gsub("%p", "%%%0"), "")), why(tree)) end
    -- Blocks that could overlap are moved in their order.
    assert.not_matches("in tiles", why(stride(1000, 16, stride(64, 8192, dense(16)))))
    local text = source(columns(8, 8192, 64))
    assert.matches("k %+ 8 <= n;.-j %+ 2 <= 64LL;.-c < 16;.-%(i %+ k %+ c / 2%) %* 8LL %+ %(j %+ c %% 2%) %* 8192LL", loop("pack", text))
    assert.matches("k %+ 16 <= n;.-j %+ 4 <= 64LL;.-c < 64;", loop("pack", source(columns(4, 8192, 64))))
    assert.matches("#ifdef __AVX512FP16__\n.-k %+ 32 <= n;.-c < 32;.-#else\n.-k %+ 8 <= n;.-j %+ 1 <= 64LL;.-c < 8;.-#endif", loop("unpack", text))
    assert.not_matches("#if", loop("pack", text))
    assert.matches("#ifdef __AVX512FP16__\n.-k %+ 8 <= n;.-j %+ 8 <= 64LL;.-c < 64;.-k %+ 4 <= n;.-c < 32;.-k %+ 1 <= n;.-c < 8;.-#else\n.-k %+ 8 <= n;.-j %+ 1 <= 64LL;.-c < 8;.-#endif",
      loop("pack", source(columns(16, 8192, 64))))
  end)

  it("reads long lists from the call, each once, in order", function()
    local list = trees.list(0, trees.list(4, dense(8)))
    local text = source(trees.seq(list, trees.blocks(8)), "mixed")
    assert.matches("size_2%(.-a%->list%[0%]%.count %* size_3%(a%)", text)
    assert.matches("size_3%(.-a%->list%[1%]%.count %* 8LL", text)
    assert.matches("%(%(const int %*%)a%->list%[2%]%.start%)%[a%->list%[2%]%.count%] %* 8", text)
  end)

  it("has 8 bytes an entry where 4 don't hold it", function()
    local list = trees.list(0, dense(8))
    assert.matches("const int %*%)a%->list", source(list, "indexed"))
    list = trees.list(0, dense(8))
    list.base, list.entry = 8, 2
    assert.matches("const s64 %*%)a%->list", source(list, "indexed"))
  end)

  it("writes short lists out, once", function()
    assert.equal(1, count(source(trees.index({ 0, 24, 40 }, dense(8)), "struct"), "at_1%[%] = {0LL, 24LL, 40LL}"))
  end)
end)
