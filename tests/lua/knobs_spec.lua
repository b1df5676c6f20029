-- knobs_spec.lua: what can be set, what a setting comes to, and what is worth trying.
package.path = "tests/lua/?.lua;" .. package.path
local knobs = require "knobs"
local plan = require "plan"
local trees = require "trees"
local dense, stride = trees.dense, trees.stride

local TRANSPOSED = stride(512, 8, stride(512, 4096, dense(8)))
local LIST = trees.whole(trees.list(0, dense(8)), "indexed", 8, 3)
local NARROW = trees.whole(stride(9, 24, trees.seq(dense(8), dense(1, 12))), "struct", 1)

-- What a wish for packing comes to.
local function pack(tree, wish) return knobs.text(plan.tree(tree, "cuda", { pack = wish }).way.pack) end

describe("knobs", function()
  it("reads what it writes", function()
    local text = "word=8 each=4 threads=512 load=last store=exch move=direct order=far"
    assert.equal(text, knobs.text(knobs.read(text)))
    assert.same({}, knobs.read(nil))
    assert.same({}, knobs.read(" "))
  end)

  it("refuses what is no setting, also where it would not matter", function()
    local function refuses(text, message)
      assert.error_matches(function() knobs.read(text) end, message)
      assert.error_matches(function() plan.tree(NARROW, "cuda", { unpack = text }) end, message)
      assert.error_matches(function() plan.generic("cuda", true, { pack = text }) end, message)
    end
    refuses("wrod=8", 'there is no knob "wrod"; there are word, each')
    refuses("word=3", "word=3: it is one of 16, 8, 4, 2, 1")
    refuses("move", '"move" is not a knob')
    refuses("threads=", '"threads=" is not a knob')
  end)

  it("sets what is named and leaves the rest to the model", function()
    assert.equal("word=16 each=2 threads=256 load=plain store=plain move=direct order=near",
      pack(stride(1 << 20, 512, dense(64)), "each=2"))
    assert.matches("move=tile", pack(TRANSPOSED, "threads=256"))
    local way = plan.tree(TRANSPOSED, "cuda", { pack = "threads=256" }).way
    assert.equal(512, way.unpack.threads)
    assert.matches("set so", way.pack.why)
  end)

  it("ignores what does not suit the tree", function()
    assert.matches("move=direct", pack(stride(512, 4096, dense(8)), "move=tile"))
    assert.matches("move=direct", pack(stride(100, 6, dense(2)), "move=bulk"))
    assert.matches("move=direct", pack(LIST, "move=tile"))
    assert.matches("word=8", pack(LIST, "word=16"))
    assert.matches("store=plain", pack(stride(512, 4096, dense(64)), "store=exch"))   -- words of 16 B
    assert.matches("order=near", pack(LIST, "each=1 order=far"))
    assert.equal("direct", plan.tree(stride(64, 4096, dense(8)), "cuda", { unpack = "move=bulk" }).way.unpack.move)
    assert.equal(pack(NARROW), pack(NARROW, "each=2 load=nc word=1 move=bulk"))
  end)

  it("makes a block move a tile, and a bulk copy fit in shared memory", function()
    for _, threads in ipairs { 128, 256, 512, 1024 } do
      local way = plan.tree(TRANSPOSED, "cuda", { pack = "each=2 threads=" .. threads }).way.pack
      assert.equal(1024, way.threads * way.each)
      way = plan.tree(stride(512, 4096, dense(64)), "cuda", { pack = "move=bulk each=16 threads=" .. threads }).way.pack
      assert.is_true(way.threads * way.each * way.word <= 32768)
    end
  end)

  it("lists settings worth trying: the model's first, no two alike, each as it comes out", function()
    local all = { dense(4096), stride(1 << 20, 512, dense(4)), stride(1 << 20, 512, dense(64)), TRANSPOSED, LIST,
      NARROW }
    for _, tree in ipairs(all) do
      for _, way in ipairs { "pack", "unpack" } do
        local list, seen = plan.knob_list(tree, "cuda", way), {}
        assert.equal(knobs.text(plan.tree(tree, "cuda").way[way]), list[1])
        assert.is_true(#list >= 4 and #list <= 60)
        for _, text in ipairs(list) do
          assert.is_nil(seen[text])
          seen[text] = true
          assert.equal(text, knobs.text(plan.tree(tree, "cuda", { [way] = text }).way[way]))
        end
      end
    end
  end)
end)
