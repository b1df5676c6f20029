-- reduce_spec.lua: what reduce.lua plans and writes for types of elements.
package.path = "tests/lua/?.lua;" .. package.path
local reduce = require "reduce"

local function read(name)
  local f = assert(io.open(name))
  return f:read("a"), f:close()
end

local function source(name) return reduce.source(reduce.plan(name, "cuda"), name, read) end

describe("a reduction's plan", function()
  it("has one entry", function()
    local p = reduce.plan("i32", "cuda")
    assert.equal("reduce", p.family)
    assert.same({ 16 }, p.words)
  end)

  it("knows no other type or target", function()
    assert.has_error(function() reduce.plan("f16", "cuda") end, 'no type "f16" is reduced')
    assert.has_error(function() reduce.plan("i32", "c") end, 'there is no target "c"; there are cuda and hip')
  end)
end)

describe("a reduction's source", function()
  it("has the operations that MPI defines for the type", function()
    assert.matches("stridec_reduce_all<stridec_bxor>", source "u8")
    assert.not_matches("stridec_band", source "f32")
    assert.not_matches("stridec_max", source "c64")
    assert.matches("case 11: stridec_reduce_all<stridec_minloc>", source "f64_i32")
  end)

  it("is the same each time", function()
    assert.equal(source "i8", source "i8")
  end)

  it("wraps sums in unsigned integers, and leaves the gap of a pair", function()
    assert.matches("%(element%)%(%(unsigned int%)a %+ %(unsigned int%)b%)", source "i16")
    assert.matches("to%->value = value.value;", source "f64_i32")
    assert.not_matches("stridec_elements", source "i32_i32")
  end)
end)
