-- gpus_spec.lua: targets, and what the model makes of each GPU.
package.path = "tests/lua/?.lua;" .. package.path
local emit = require "emit"
local gpus = require "gpus"
local knobs = require "knobs"
local plan = require "plan"
local trees = require "trees"
local dense, stride = trees.dense, trees.stride

local function target(sm, multiprocessors, threads, cache, memory)
  return ("cuda sm_%d multiprocessors=%d threads=%d cache=%d memory=%d"):format(sm, multiprocessors, threads, cache, memory)
end
local function of_row(row) return target(row.sm, row.multiprocessors, row.threads, row.cache, row.memory) end

-- Properties that drivers tell.
local H100, H200 = target(90, 132, 2048, 50, 3352), target(90, 132, 2048, 60, 4916)
local A100, V100, T4, B200 = "cuda sm_80", "cuda sm_70", "cuda sm_75", "cuda sm_100"

local function read(name) return assert(io.open(name)):read("a") end
local function source(tree, on, wishes) return emit.source(plan.tree(tree, on, wishes), "title", read) end

-- Columns of every kind that a rule names, transposed ones, and irregular ones.
local LAYOUTS = {}
for _, block in ipairs { 1, 2, 4, 8, 12, 16, 32, 64, 128, 512, 4096 } do
  for size = 10, 28 do
    LAYOUTS[#LAYOUTS + 1] = stride(math.max(2, (1 << size) // block), math.max(64, 2 * block), dense(block))
  end
end
for _, n in ipairs { 16, 512, 4096 } do LAYOUTS[#LAYOUTS + 1] = stride(n, 8, stride(n, 8 * n, dense(8))) end
for size = 4, 20 do
  LAYOUTS[#LAYOUTS + 1] = trees.whole(stride(1 << size, 512, trees.seq(dense(64), dense(128, 96))), "struct", 16)
end

describe("gpus", function()
  it("reads targets, and refuses others", function()
    assert.equal(90, gpus.of("cuda").sm)
    assert.same(gpus.of("cuda").full, gpus.of("cuda sm_90a").full)
    assert.equal(108 * 2048, gpus.of(A100).full)
    assert.equal(16 * 2048, gpus.of(target(90, 16, 2048, 8, 600)).full)
    assert.equal(84, gpus.of("cuda sm_87").multiprocessors)
    for _, text in ipairs { "", "cuda sm", "cuda sm_80 cache=4", "cuda sm_80 cache", A100 .. " frob=1",
      target(80, 0, 2048, 40, 2000), H100 .. " more=3", "host" } do
      assert.error_matches(function() gpus.of(text) end, "there is no target")
    end
  end)

  it("gives an H100 and an H200 what was measured on an H200", function()
    for _, tree in ipairs(LAYOUTS) do
      local measured = source(tree, "cuda")
      for _, on in ipairs { "cuda sm_90", H100, H200 } do assert.equal(measured, source(tree, on)) end
    end
  end)

  it("makes kernels for every row, by its properties or its architecture", function()
    for _, row in ipairs(gpus.ROWS) do
      for _, tree in ipairs(LAYOUTS) do
        assert.equal(source(tree, "cuda sm_" .. row.sm), source(tree, of_row(row)))
      end
    end
  end)

  it("takes what an architecture has", function()
    for _, tree in ipairs(LAYOUTS) do
      for _, row in ipairs(gpus.ROWS) do
        for _, way in pairs(plan.tree(tree, "cuda sm_" .. row.sm).way) do
          assert.is_true(row.sm >= 90 or way.move ~= "bulk")
          assert.is_true(row.sm >= 80 or way.load == "plain")
          assert.equal(0, row.threads % way.threads)
          assert.is_true(2 * way.threads <= row.threads)
        end
      end
    end
  end)

  it("lists no setting that an architecture lacks", function()
    for _, text in ipairs(plan.knob_list(stride(1 << 21, 64, dense(16)), V100, "pack")) do
      assert.not_matches("bulk", text)
      assert.matches("load=plain", text)
    end
    assert.matches("bulk", table.concat(plan.knob_list(stride(1 << 21, 64, dense(16)), H200, "pack")))
  end)

  it("takes and lists for AMD's GPUs nothing that NVIDIA's alone have", function()
    for _, tree in ipairs(LAYOUTS) do
      local p = plan.tree(tree, "hip")
      for name, way in pairs(p.way) do
        assert.not_equal("bulk", way.move)
        assert.equal("plain", way.load)
        for _, text in ipairs(plan.knob_list(tree, "hip", name)) do
          assert.not_matches("bulk", text)
          assert.matches("load=plain", text)
        end
      end
      local words = table.concat(p.why, "\n")
      for _, word in ipairs { "sm_", "asynchronous", "L1 cache", "kept in the L2 cache", "leave the L2 cache" } do
        assert.not_matches(word, words)
      end
    end
  end)

  it("measures layouts by the L2 cache", function()
    -- 4 MiB of 16 B blocks lie in an H200's and an A100's cache, 512 KiB in a V100's, 256 KiB in a T4's.
    local function each(bytes, on) return plan.tree(stride(bytes // 16, 64, dense(16)), on).way.pack.each end
    assert.equal(4, each(4 << 20, "cuda"))
    assert.equal(4, each(4 << 20, A100))
    assert.equal(1, each(4 << 20, V100))
    assert.equal(4, each(512 << 10, V100))
    assert.equal(4, each(256 << 10, T4))
    assert.equal(1, each(1 << 20, T4))
    assert.equal(262144, plan.tree(stride(1 << 17, 64, dense(8)), V100).marked.touched)
  end)

  it("counts threads of irregular layouts by what the GPU runs at a time", function()
    local function each(n, on)
      return plan.tree(trees.whole(stride(n, 512, trees.seq(dense(64), dense(128, 96))), "struct", 16), on).way.pack.each
    end
    assert.equal(1, each(1 << 14, "cuda"))
    assert.equal(4, each(1 << 14, T4))
    assert.equal(4, each(1 << 14, target(90, 16, 2048, 8, 600)))   -- a part of an H200
  end)

  it("gives threads more loads where the memory wants more bytes in flight", function()
    local tree = stride(1 << 20, 512, dense(128))
    assert.equal(1, plan.tree(tree, "cuda").way.pack.each)
    assert.equal(2, plan.tree(tree, B200).way.pack.each)
    assert.equal(1, plan.tree(stride(1000, 512, dense(128)), B200).way.pack.each)   -- threads to spare
  end)

  it("tells whose figures a reason has", function()
    local function why(on) return table.concat(plan.tree(stride(1 << 20, 512, dense(128)), on).why, "\n") end
    assert.matches("of an H200's memory", why("cuda"))
    assert.not_matches("figures", why("cuda"))
    assert.matches("of an A100's memory", why(A100))
    assert.matches("an H200's figures", why(A100))
    assert.matches("of an H200's memory", why("hip"))
    assert.matches("an H200's figures", why("hip"))
    assert.matches("of a GPU of 600 GB/s's memory", why(target(90, 16, 2048, 8, 600)))
  end)

  it("lets settings be wished for that the model would not take", function()
    assert.equal("bulk", plan.tree(LAYOUTS[60], V100, { pack = "move=bulk" }).way.pack.move)
    assert.is_true(gpus.serves(gpus.of(V100), knobs.read "word=8"))
  end)
end)
