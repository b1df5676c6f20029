-- index.lua: the arithmetic that finds a packed word's place in the user's buffer.
--
-- Passes: levels (what is counted, in words of one width), simplify (what need not be), lower (C text).
local index = {}

-- Innermost first, so that each level's count divides what the one before left: { count =, step = }, the
-- step in bytes. The dense block is the innermost level.
local function levels(shape, width)
  local list = { { count = shape.length // width, step = width } }
  for i = #shape.dims, 1, -1 do
    list[#list + 1] = { count = shape.dims[i].count, step = shape.dims[i].step }
  end
  return list
end

-- A level of one always counts 0. The outermost stays: where elements continue it, it counts on.
local function simplify(list)
  local kept = {}
  for i, level in ipairs(list) do
    if level.count ~= 1 or i == #list then kept[#kept + 1] = level end
  end
  return kept
end

-- The literal of a signed 64-bit number; C has none for the lowest.
function index.literal(n)
  if n == math.mininteger then return "(-9223372036854775807LL - 1)" end
  return ("%dLL"):format(n)
end

-- One digit times its step, in signed 64 bits. 32-bit digits are below 2^31, so that the signed cast
-- lets the product be one widening multiplication.
local function term(digit, step, bits)
  local cast = bits == 32 and "(long long)(int)" or "(long long)"
  return ("%s(%s) * %s"):format(cast, digit, step)
end

-- Lines that define the quotients q1, q2, ... and `element`, then the terms to add up. `element` is not 0
-- only where the launch wraps; else the outermost digit is what is left, not reduced.
local function lower(list, offset, bits)
  local suffix = bits == 32 and "u" or "ull"
  local lines, terms, rest = {}, {}, "word_index"
  for i = 1, #list do
    local quotient = i < #list and "q" .. i or "element"
    -- An empty type is never launched; its divisor must compile all the same.
    local count = ("%d%s"):format(math.max(list[i].count, 1), suffix)
    local value = i < #list and ("%s / %s"):format(rest, count) or ("WRAP ? %s / %s : 0"):format(rest, count)
    lines[i] = ("const index %s = %s;"):format(quotient, value)
    terms[i] = term(("%s - %s * %s"):format(rest, quotient, count), index.literal(list[i].step), bits)
    rest = quotient
  end
  terms[#terms + 1] = term("element", "a.extent", bits)
  if offset ~= 0 then terms[#terms + 1] = index.literal(offset) end
  return lines, terms
end

-- Lines of the C function body that maps `word_index`, counting words of `width` bytes in the packed
-- stream, to an offset in bytes; for `runs`, of blocks longer than a word, also `back` and `left` (place.lua).
function index.body(shape, width, bits, runs)
  local lines, terms = lower(simplify(levels(shape, width)), shape.offset, bits)
  if runs then
    local length = ("%d%s"):format(shape.length // width, bits == 32 and "u" or "ull")
    lines[#lines + 1] = ("back = word_index %% %s;"):format(length)
    lines[#lines + 1] = ("left = %s - back;"):format(length)
  end
  lines[#lines + 1] = "return " .. table.concat(terms, "\n               + ") .. ";"
  return lines
end

return index
