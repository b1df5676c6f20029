-- plan_spec.lua: what plan.lua decides for which tree.
package.path = "tests/lua/?.lua;" .. package.path
local plan = require "plan"
local trees = require "trees"
local dense, stride = trees.dense, trees.stride

local function words(tree) return plan.tree(tree, "cuda").words end

describe("plan", function()
  it("tells families apart", function()
    assert.equal("contiguous", plan.tree(dense(8), "cuda").family)
    assert.equal("strided", plan.tree(stride(2, 16, dense(8)), "cuda").family)
    assert.equal("struct", plan.tree(trees.whole(trees.index({ 0, 9 }, dense(8)), "struct", 1), "cuda").family)
    assert.equal("indexed", plan.tree(trees.whole(trees.list(0, dense(8)), "indexed", 8, 3), "cuda").family)
    assert.equal("generic", plan.generic("cuda").family)
  end)

  it("says what a tree is made of and what limits it", function()
    local p = plan.tree(trees.whole(stride(2, 99, trees.seq(dense(8), dense(4, 12))), "struct", 1), "cuda")
    assert.matches("a tree of 1 seq, 1 stride, 2 dense; every offset and length is a constant", p.why[1])
    assert.matches("limit: words of 1 B take an instruction each", p.why[7])
    p = plan.tree(trees.whole(trees.blocks(0), "indexed", 8, 6), "cuda")
    assert.matches("in device memory", p.why[1])
    assert.matches("a block takes 4 B and 4 B for every 64", p.why[7])
    assert.matches("too large for source", plan.generic("cuda", true).why[1])
  end)

  it("moves narrow words in aligned groups of 16 B", function()
    local function narrow(word)
      return plan.tree(trees.whole(stride(9, 24, trees.seq(dense(8), dense(word, 12))), "struct", word), "cuda")
    end
    assert.is_true(narrow(1).gathers)
    assert.equal(16, narrow(1).way.pack.each)
    assert.equal(8, narrow(2).way.pack.each)
    assert.is_false(narrow(4).gathers)
  end)

  it("takes the widest word that divides block, steps and inner offsets", function()
    assert.same({ 16, 8, 4, 1 }, words(dense(400)))
    assert.same({ 16, 8, 4, 1 }, words(stride(4, 512, dense(64))))   -- addresses of doubles
    assert.same({ 8, 4, 1 }, words(stride(4, 520, dense(64))))
    assert.same({ 8, 4, 1 }, words(stride(4, 512, dense(48))))   -- short blocks are quicker in narrower words
    assert.same({ 4, 1 }, words(stride(4, -512, dense(4))))
    assert.same({ 2, 1 }, words(stride(4, 512, dense(6))))
    assert.same({ 1 }, words(stride(4, 513, dense(32))))
    assert.same({ 4, 1 }, words(stride(4, 512, dense(32, 4))))
    assert.same({ 16, 8, 4, 1 }, words(stride(2, math.mininteger, dense(64))))
  end)

  it("leaves the root's offset out of the word", function()
    assert.same({ 16, 8, 4, 1 }, words(stride(4, 512, dense(64), 3)))
  end)

  it("has chunks moved where blocks are short, and none are tiles; those of parts of sectors are touched", function()
    local function marked(tree) return plan.tree(tree, "cuda").marked end
    assert.same({ each = 1, threads = 256, touched = 0, pace = 2, pack = 4, unpack = 4 }, marked(stride(1000, 512, dense(60))))
    assert.same({ each = 8, threads = 256, touched = 0, pace = 0, pack = 2, unpack = 2 }, marked(stride(1000, 512, dense(2))))
    assert.same({ each = 1, threads = 256, touched = 0, pace = 16, pack = 4, unpack = 4 }, marked(stride(1000, 512, dense(4))))
    assert.same({ each = 1, threads = 256, touched = 1 << 20, pace = 5, pack = 4, unpack = 4 }, marked(stride(1000, 512, dense(12))))
    assert.same({ each = 1, threads = 256, touched = 2 << 20, pace = 8, pack = 8, unpack = 8 }, marked(stride(1000, 512, dense(16))))
    assert.equal(4, plan.tree(stride(1 << 20, 512, dense(16)), "cuda").way.unpack.word)
    assert.equal(8, marked(stride(1 << 20, 512, dense(16))).unpack)
    assert.equal(4, marked(stride(1 << 21, 512, dense(8))).unpack)
    assert.falsy(marked(stride(1000, 512, dense(64))))
    assert.falsy(marked(dense(4)))
    assert.falsy(marked(stride(512, 8, stride(512, 4096, dense(8)))))
  end)

  it("counts in 32 bits below 2^31 bytes only", function()
    assert.equal(32, plan.tree(stride(1 << 27, 32, dense(15)), "cuda").index_bits)
    assert.equal(32, plan.tree(dense((1 << 31) - 1), "cuda").index_bits)
    assert.equal(64, plan.tree(stride(1 << 27, 32, dense(16)), "cuda").index_bits)
    assert.equal(64, plan.tree(dense(math.maxinteger), "cuda").index_bits)
  end)

  it("gives a thread of most strided kernels one word, and large blocks of threads to many narrow words", function()
    assert.equal(1, plan.tree(stride(1 << 16, 2048, dense(1024)), "cuda").way.pack.each)
    assert.equal(256, plan.tree(stride(1 << 16, 2048, dense(1024)), "cuda").way.pack.threads)
    assert.equal(256, plan.tree(stride(1 << 18, 512, dense(4)), "cuda").way.pack.threads)
    assert.equal(1024, plan.tree(stride(1 << 24, 512, dense(4)), "cuda").way.pack.threads)
  end)

  it("turns transposed layouts in tiles, where rows and columns are enough", function()
    local function moves(tree)
      local way = plan.tree(tree, "cuda").way
      return way.pack.move .. " " .. way.unpack.move
    end
    assert.equal("tile tile", moves(stride(512, 8, stride(512, 4096, dense(8)))))
    assert.equal("tile tile", moves(stride(64, 16, stride(3, 1 << 20, stride(64, -4096, dense(16))))))
    assert.equal("direct direct", moves(stride(4, 8, stride(512, 4096, dense(8)))))
    assert.equal("direct direct", moves(stride(512, 64, stride(512, 1 << 16, dense(64)))))
    assert.equal("direct direct", moves(stride(512, 4096, stride(512, 8, dense(8)))))
  end)

  it("sends many short blocks by bulk copies and takes them by exchanges", function()
    local way = plan.tree(stride(1 << 22, 512, dense(16)), "cuda").way
    assert.equal("bulk", way.pack.move)
    assert.equal("exch", way.unpack.store)
    assert.equal("far", plan.tree(stride(1 << 21, 512, dense(32)), "cuda").way.unpack.order)
  end)

  it("lists the widths of both directions once, widest first", function()
    assert.same({ 16, 8, 4, 1 }, words(stride(1 << 21, 512, dense(32))))
    assert.same({ 8, 4, 2, 1 }, plan.tree(stride(8, 64, dense(8)), "cuda", { pack = "word=2" }).words)
  end)

  it("gives a thread of an irregular kernel more words only when the GPU is full", function()
    local function each(n)
      return plan.tree(trees.whole(stride(n, 512, trees.seq(dense(64), dense(128, 96))), "struct", 16), "cuda").way.pack.each
    end
    assert.equal(1, each(16))
    assert.equal(4, each(1 << 17))
  end)

  it("serves an empty type", function()
    local p = plan.tree(dense(0), "cuda")
    assert.equal("contiguous", p.family)
    assert.equal(1, p.words[#p.words])
  end)

  it("always ends in words of 1 B and explains itself", function()
    for _, tree in ipairs { dense(1), dense(48), stride(3, -7, dense(2)), 
      trees.whole(trees.index({ 0, 9 }, dense(8)), "struct", 1), dense(1 << 62), stride(1 << 60, 4, dense(1)) } do
      local p = plan.tree(tree, "cuda")
      assert.equal(1, p.words[#p.words])
      assert.equal(7, #p.why)
      assert.not_matches("%-%d", p.why[7])
    end
  end)

  it("refuses an unknown target", function()
    assert.error_matches(function() plan.tree(dense(1), "abacus") end, 'no target "abacus"')
    assert.error_matches(function() plan.generic("abacus") end, 'no target "abacus"')
  end)
end)
