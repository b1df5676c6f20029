-- emit_spec.lua: index arithmetic and the text of whole kernels.
package.path = "tests/lua/?.lua;" .. package.path
local emit = require "emit"
local index = require "index"
local place = require "place"
local plan = require "plan"
local shape = require "shape"
local trees = require "trees"
local dense, stride = trees.dense, trees.stride

local function read(name)
  local file = io.open(name)
  return file and file:read("a")
end

local function source(tree) return emit.source(plan.tree(tree, "cuda"), "a title", read) end

describe("index", function()
  it("divides by literal counts, innermost first, and leaves the outermost digit whole", function()
    local body = index.body(shape.of(stride(3, -4096, stride(25, 64, dense(32)))), 16, 32)
    assert.same({
      "const index q1 = word_index / 2u;",
      "const index q2 = q1 / 25u;",
      "const index element = WRAP ? q2 / 3u : 0;",
      "return (long long)(int)(word_index - q1 * 2u) * 16LL\n               "
        .. "+ (long long)(int)(q1 - q2 * 25u) * 64LL\n               "
        .. "+ (long long)(int)(q2 - element * 3u) * -4096LL\n               "
        .. "+ (long long)(int)(element) * a.extent;",
    }, body)
  end)

  it("does not count inside a block of one word", function()
    local body = index.body(shape.of(stride(3, 64, dense(16))), 16, 32)
    assert.equal("const index element = WRAP ? word_index / 3u : 0;", body[1])
  end)

  it("keeps the block of a contiguous type", function()
    assert.equal("const index element = WRAP ? word_index / 1u : 0;", index.body(shape.of(dense(8)), 8, 32)[1])
  end)

  it("counts in 64 bits where asked", function()
    assert.equal("const index q1 = word_index / 2ull;", index.body(shape.of(stride(3, 64, dense(32))), 16, 64)[1])
  end)

  it("adds inner offsets and never divides by 0", function()
    local body = index.body(shape.of(stride(0, 64, dense(0, 24))), 8, 32)
    assert.matches("/ 1u", body[1])
    assert.matches("+ 24LL;$", body[#body])
  end)

  it("writes the lowest number as C can read it", function()
    assert.equal("(-9223372036854775807LL - 1)", index.literal(math.mininteger))
    assert.equal("9223372036854775807LL", index.literal(math.maxinteger))
  end)
end)

describe("place", function()
  local function body(tree, width) return table.concat(place.body(tree, width, 32), "\n") end

  it("halves parts, and adds what a dense one lies further on", function()
    local text = body(trees.seq(dense(8), dense(4, 12), dense(4, 40)), 4)
    assert.matches("if %(rest < %(2u%)%) {\n}\nelse {\n    if %(rest < %(3u%)%) {\n        offset %+= 4LL;", text)
  end)

  it("keeps few offsets in the source and reads many from the list", function()
    assert.matches("%(copy < 1u %? 0LL : 96LL%)", body(trees.index({ 0, 96 }, dense(8)), 8))
    assert.matches("stridec_list<stridec_plain<int>>%(a, 2%)%[copy%] %* 8LL;", body(trees.list(2, dense(8)), 8))
  end)

  it("divides by numbers of the launch where lists decide", function()
    local text = body(stride(3, 4096, trees.list(0, dense(16))), 16)
    assert.matches("const index copy = stridec_divide%(rest, a.number%[1%], a.number%[2%]%);", text)
  end)

  it("counts parts after a list from its size", function()
    local text = body(trees.seq(trees.list(0, dense(8)), dense(16, 4096)), 8)
    assert.matches("if %(rest < %(0u %+ %(index%)a.number%[1%]%)%)", text)
  end)

  it("searches blocks in units", function()
    local types = "stridec_based<int, unsigned short, 6, 0>, stridec_plain<unsigned short>, 16"
    assert.matches("stridec_block<" .. types .. ">%(%(rest%) / 2u, a, 0%) %* 8LL;", body(trees.blocks(0), 4))
  end)
end)

describe("emit", function()
  it("declares the numbers that a kernel reads", function()
    local text = source(trees.whole(stride(3, 4096, trees.list(0, dense(16))), "indexed", 8, 5))
    assert.truthy(text:find("unsigned long long number[5];", 1, true))
    assert.falsy(source(stride(3, 64, dense(32))):find("number[", 1, true))
  end)

  it("writes a pack and an unpack entry for each word", function()
    local text = source(stride(3, 128, dense(64)))
    for _, width in ipairs { 16, 8, 4, 1 } do
      for _, way in ipairs { "pack", "unpack" } do
        local entry = ("stridec_%s_w%d(const struct stridec_launch a)"):format(way, width)
        assert.truthy(text:find(entry, 1, true), entry)
      end
    end
    assert.falsy(source(stride(3, 128, dense(48))):find("_w16(", 1, true))
  end)

  it("finds what lies around a word in its run where runs of narrow words are long", function()
    local text = source(stride(300, 1021, dense(381)))
    assert.matches("back = word_index %% 381u;\n        left = 381u %- back;", text)
    assert.matches("stridec_shift<stridec_layout_w1<true>, stridec_way_unpack<16>>", text)
    local list = trees.blocks(0)
    list.long, list.unit = true, 1
    text = source(trees.whole(trees.seq(list, dense(96, 4096)), "mixed", 1, 5))
    assert.matches("offset %+= stridec_block<[^;]-, before, after%) %* 1LL;\n +back = before %* 1u %+ rest %% 1u;", text)
    assert.matches("if %(left > %(index%)a.number%[4%] %- rest%) left = ", text)
    list.long = false
    assert.falsy(source(trees.whole(list, "indexed", 1, 5)):find("stridec_shift", 1, true))
  end)

  it("moves short blocks in chunks too", function()
    local text = source(stride(3, 128, dense(8)))
    assert.truthy(text:find("typedef stridec_marked<stridec_way_pack<1>> way;", 1, true))
    assert.matches("blockIdx.x %* 16%) continue;.-stridec_pack_marked[^}]-    stridec_pace%(%);", text)
    assert.falsy(text:match("stridec_unpack_marked.*stridec_pace%("))
    assert.matches("stridec_unpack_marked%(const struct stridec_launch a%).-stridec_await%(a, chunk, late%);.-stridec_move<stridec_layout_w8<true>, way>%(part%);", text)
    assert.matches("stridec_unpack_marked.-stridec_touch<stridec_layout_w8<false>, way>%(part%);.-stridec_await", text)
    assert.falsy(source(stride(3, 128, dense(32))):find("stridec_touch", 1, true))
    assert.falsy(source(stride(3, 128, dense(64))):find("_marked(", 1, true))
  end)

  it("titles its source and leaves no template marks", function()
    local text = source(stride(3, 64, dense(32)))
    assert.matches("^/%* a title: strided family", text)
    assert.falsy(text:find("@", 1, true))
  end)

  it("writes the interpreter, the same each time", function()
    local one = emit.source(plan.generic("cuda", true), "any tree", read)
    local other = emit.source(plan.generic("cuda"), "any tree", read)
    assert.equal(one, other)
    assert.falsy(one:find("@", 1, true))
    assert.truthy(one:find("stridec_unpack_w8(", 1, true))
  end)

  it("handles 63 dimensions", function()
    local tree = dense(4)
    for _ = 1, 63 do tree = stride(2, 8, tree) end
    tree.size = 4
    assert.matches("q63 = q62 / 2", source(tree))
  end)
end)
