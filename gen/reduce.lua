-- reduce.lua: kernels that reduce rows of elements to one row: a module for each type of element, with all operations
-- that MPI defines for it. Plans are as plan.lua's, of family "reduce": one entry, of words of 16 bytes.
local plan = require "plan"
local template = require "template"

local reduce = {}

local THREADS = 256
local EACH = 2

-- ORDER GEN_OP (gen.h)
local OPS = { "sum", "prod", "max", "min", "land", "lor", "lxor", "band", "bor", "bxor", "maxloc", "minloc" }

-- The operations of each class of types, as C; `a` is of the earlier row. Sums and products of integers wrap. With a
-- NaN, MAX and MIN give `a`. true: written in the class's own template.
local LOGICAL = { land = "a && b", lor = "a || b", lxor = "!a != !b" }
local CLASSES = {
  integer = { sum = "(element)((WRAP)a + (WRAP)b)", prod = "(element)((WRAP)a * (WRAP)b)",
    max = "b > a ? b : a", min = "b < a ? b : a", land = LOGICAL.land, lor = LOGICAL.lor, lxor = LOGICAL.lxor,
    band = "(element)(a & b)", bor = "(element)(a | b)", bxor = "(element)(a ^ b)" },
  float = { sum = "a + b", prod = "a * b", max = "b > a ? b : a", min = "b < a ? b : a" },
  bool = LOGICAL,
  complex = { sum = true, prod = true },
  pair = { maxloc = true, minloc = true },
}

-- Types by the names of gen.h's GEN_REDUCE_TYPES. c: the C type; wrap: the unsigned type that sums and products wrap
-- in; bits: the unsigned type of a float's size; rn: the prefix of the functions that round after each step.
local TYPES = { bool = { class = "bool", c = "unsigned char", bytes = 1 } }
for i, c in ipairs { "char", "short", "int", "long long" } do
  local bytes = 1 << (i - 1)
  local wrap = bytes < 8 and "unsigned int" or "unsigned long long"
  TYPES["i" .. 8 * bytes] = { class = "integer", c = "signed " .. c, wrap = wrap, bytes = bytes }
  TYPES["u" .. 8 * bytes] = { class = "integer", c = "unsigned " .. c, wrap = wrap, bytes = bytes }
end
for c, r in pairs { float = { "f32", "f", 4, "unsigned int" }, double = { "f64", "d", 8, "unsigned long long" } } do
  TYPES[r[1]] = { class = "float", c = c, bytes = r[3] }
  TYPES["c" .. 2 * 8 * r[3]] = { class = "complex", c = c, rn = "__" .. r[2], bits = r[4], bytes = 2 * r[3] }
end
for name, r in pairs {
  i16_i32 = { "short", "int" }, i32_i32 = { "int", "int" }, i64_i32 = { "long long", "int" },
  i64_i64 = { "long long", "long long" }, f32_i32 = { "float", "int" }, f64_i32 = { "double", "int" },
  f32_f32 = { "float", "float" }, f64_f64 = { "double", "double" },
} do
  TYPES[name] = { class = "pair", value = r[1], place = r[2] }
end

function reduce.plan(name, target)
  local type = TYPES[name] or error(("no type %q is reduced"):format(name), 0)
  local p = plan.fixed(target, "reduce", { 16 }, { word = 16, each = EACH, threads = THREADS }, 64,
    { ("rows of %s, all operations in one entry"):format(name) })
  p.type = type
  return p
end

function reduce.source(p, title, read)
  local ops = {}
  for number, op in ipairs(OPS) do
    local text = CLASSES[p.type.class][op]
    if type(text) == "string" then text = text:gsub("WRAP", p.type.wrap or "") end
    if text then ops[#ops + 1] = { name = op, number = number - 1, text = text } end
  end
  return template.render("templates/reduce.cu", read, {
    plan = p,
    title = title,
    type = p.type,
    ops = ops,
    own = p.type.class == "complex" or p.type.class == "pair",
    wide = p.type.bytes and p.type.bytes < 16,
    numbers = 0,
  })
end

return reduce
