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
    assert.equal("generic", plan.tree(trees.index({ 0, 9 }, dense(8)), "cuda").family)
    assert.equal("generic", plan.tree(stride(2, 99, trees.seq(dense(8), dense(4, 12))), "cuda").family)
  end)

  it("says which node has no family of its own", function()
    local p = plan.tree(stride(2, 99, trees.seq(dense(8), dense(4, 12))), "cuda")
    assert.matches("seq nodes have no family of their own yet", p.why[1])
  end)

  it("takes the widest word that divides block, steps and inner offsets", function()
    assert.same({ 16, 4, 1 }, words(dense(400)))
    assert.same({ 16, 4, 1 }, words(stride(4, 512, dense(32))))
    assert.same({ 8, 4, 1 }, words(stride(4, 520, dense(32))))
    assert.same({ 4, 1 }, words(stride(4, -512, dense(4))))
    assert.same({ 2, 1 }, words(stride(4, 512, dense(6))))
    assert.same({ 1 }, words(stride(4, 513, dense(32))))
    assert.same({ 4, 1 }, words(stride(4, 512, dense(32, 4))))
    assert.same({ 16, 4, 1 }, words(stride(2, math.mininteger, dense(16))))
  end)

  it("leaves the root's offset out of the word", function()
    assert.same({ 16, 4, 1 }, words(stride(4, 512, dense(32), 3)))
  end)

  it("counts in 32 bits below 2^31 bytes only", function()
    assert.equal(32, plan.tree(stride(1 << 27, 32, dense(15)), "cuda").index_bits)
    assert.equal(32, plan.tree(dense((1 << 31) - 1), "cuda").index_bits)
    assert.equal(64, plan.tree(stride(1 << 27, 32, dense(16)), "cuda").index_bits)
    assert.equal(64, plan.tree(dense(math.maxinteger), "cuda").index_bits)
  end)

  it("gives a thread more words only when the GPU is full", function()
    assert.equal(1, plan.tree(stride(1024, 2048, dense(1024)), "cuda").words_per_thread)
    assert.equal(4, plan.tree(stride(1 << 16, 2048, dense(1024)), "cuda").words_per_thread)
  end)

  it("serves an empty type", function()
    local p = plan.tree(dense(0), "cuda")
    assert.equal("contiguous", p.family)
    assert.equal(1, p.words[#p.words])
  end)

  it("always ends in words of 1 B and explains itself", function()
    for _, tree in ipairs { dense(1), dense(48), stride(3, -7, dense(2)), trees.index({ 0, 9 }, dense(8)) } do
      local p = plan.tree(tree, "cuda")
      assert.equal(1, p.words[#p.words])
      assert.equal(5, #p.why)
    end
  end)

  it("refuses an unknown target", function()
    assert.error_matches(function() plan.tree(dense(1), "abacus") end, 'no target "abacus"')
    assert.error_matches(function() plan.generic("abacus") end, 'no target "abacus"')
  end)
end)
