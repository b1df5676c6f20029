-- link_spec.lua: what link.lua plans and writes for a pair of forms, and for lists.
package.path = "tests/lua/?.lua;" .. package.path
local link = require "link"
local trees = require "trees"
local dense, stride = trees.dense, trees.stride

-- As gen.c says it of a chain of strides.
local function chain(tree)
  return trees.whole(tree, "strided", 16)
end

local function read(name)
  local f = assert(io.open(name))
  return f:read("a"), f:close()
end

local function source(plan) return link.source(plan, "test", read) end

describe("a link's plan", function()
  it("takes words that both sides allow", function()
    local p = link.pair(chain(stride(9, 512, dense(64))), chain(stride(18, 40, dense(32))), false, "cuda")
    assert.same({ 8, 4, 1 }, p.words)
    assert.equal("link", p.family)
    assert.same({ 1 }, link.pair(chain(dense(64)), chain(stride(64, 3, dense(1))), false, "cuda").words)
  end)

  it("counts in 64 bits where either side is large", function()
    local large = chain(stride(2 ^ 20 // 1, 2 ^ 13 // 1, dense(2 ^ 12 // 1)))
    local small = chain(dense(64))
    assert.equal(64, link.pair(small, large, false, "cuda").index_bits)
    assert.equal(64, link.pair(large, small, false, "cuda").index_bits)
    assert.equal(32, link.pair(small, small, true, "cuda").index_bits)
  end)

  it("writes long code for fewer words at a time", function()
    local function parts(n)
      local list = {}
      for i = 1, n do list[i] = dense(8, 24 * i) end
      return trees.whole(trees.seq(table.unpack(list)), "struct", 8)
    end
    local short, long = parts(3), parts(30)
    assert.equal(4, link.pair(short, short, true, "cuda").way.pack.each)
    assert.equal(2, link.pair(short, long, false, "cuda").way.pack.each)
    assert.equal(1, link.pair(long, long, true, "cuda").way.pack.each)
  end)

  it("knows no other target", function()
    assert.has_error(function() link.list("c") end, 'there is no target "c"; there are cuda and hip')
  end)
end)

describe("a link's source", function()
  it("walks sides that lie alike once", function()
    local t = chain(stride(9, 512, dense(64)))
    assert.matches("a.from.packed", source(link.pair(t, t, true, "cuda")))
    assert.not_matches("a.from.packed", source(link.pair(t, chain(dense(64)), false, "cuda")))
  end)

  it("has an entry for each length of list", function()
    local p = link.list("cuda")
    for _, n in ipairs(p.words) do assert.matches("stridec_link_" .. n .. "%(", source(p)) end
    assert.matches("stridec_link_move<true>%(job", source(p))
  end)
end)
