-- json.lua: reads JSON (RFC 8259), and nothing else: no comments, no commas at ends, no second key of one name.
-- Objects become tables without the keys whose value is null; arrays become tables with their length at .n, null being
-- nil. Numbers without a fraction or exponent become integers where they fit.
local M = {}

local DEPTH_MAX = 64
local ARRAY = {}   -- the metatable of arrays

-- An error of the file: {message}, unlike faults of this program.
local function fail(s, at, message)
  local _, line = s:sub(1, at - 1):gsub("\n", "")
  error({ string.format("line %d, byte %d of the file: %s", line + 1, at, message) })
end

local function skip(s, at) return s:match("^[ \t\r\n]*()", at) end

local ESCAPES = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- \uXXXX at `at`, the place behind the u; two of them for what UTF-16 writes in two.
local function unicode(s, at)
  local code = tonumber(s:match("^%x%x%x%x", at) or fail(s, at, "four hexadecimal digits expected"), 16)
  at = at + 4
  local low = code >= 0xD800 and code < 0xDC00 and tonumber(s:match("^\\u(%x%x%x%x)", at) or "0", 16)
  if low and low >= 0xDC00 and low < 0xE000 then
    return utf8.char(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00), at + 6
  end
  return utf8.char(code >= 0xD800 and code < 0xE000 and 0xFFFD or code), at   -- half a pair is no character
end

local function read_string(s, at)
  local parts, begun = {}, at
  at = at + 1
  while true do
    local stop = s:find('["\\%c]', at) or fail(s, begun, "a text without an end")
    parts[#parts + 1] = s:sub(at, stop - 1)
    local c = s:sub(stop, stop)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c == "\127" then
      parts[#parts + 1], at = c, stop + 1
    elseif c ~= "\\" then
      fail(s, stop, "a control character in a text")
    elseif s:sub(stop + 1, stop + 1) == "u" then
      parts[#parts + 1], at = unicode(s, stop + 2)
    else
      local plain = ESCAPES[s:sub(stop + 1, stop + 1)] or fail(s, stop, "no such escape")
      parts[#parts + 1], at = plain, stop + 2
    end
  end
end

local function read_number(s, at)
  local text, stop = s:match("^(-?%d+%.?%d*[eE]?[+-]?%d*)()", at)
  local whole, rest = (text or ""):match("^-?(%d+)(.*)$")
  local fraction = rest and rest:gsub("^%.%d+", "")
  if not whole or whole:find("^0%d") or not (fraction == "" or fraction:find("^[eE][+-]?%d+$")) then
    fail(s, at, "a value expected")
  end
  local n = tonumber(text)
  if n ~= n or math.abs(n) == math.huge then fail(s, at, "a number out of range") end
  return n, stop
end

local read_value

local function read_array(s, at, depth)
  local list, n = setmetatable({}, ARRAY), 0
  at = skip(s, at + 1)
  if s:sub(at, at) == "]" then list.n = 0 return list, at + 1 end
  while true do
    n = n + 1
    list[n], at = read_value(s, at, depth)
    local c = s:sub(at, at)
    if c == "]" then list.n = n return list, at + 1 end
    if c ~= "," then fail(s, at, "',' or ']' expected") end
    at = at + 1
  end
end

local function read_object(s, at, depth)
  local object, seen = {}, {}
  at = skip(s, at + 1)
  if s:sub(at, at) == "}" then return object, at + 1 end
  while true do
    at = skip(s, at)
    if s:sub(at, at) ~= '"' then fail(s, at, "a name in quotes expected") end
    local begun, key = at, nil
    key, at = read_string(s, at)
    if seen[key] then fail(s, begun, "a name for the second time") end
    seen[key] = true
    at = skip(s, at)
    if s:sub(at, at) ~= ":" then fail(s, at, "':' expected") end
    object[key], at = read_value(s, at + 1, depth)
    local c = s:sub(at, at)
    if c == "}" then return object, at + 1 end
    if c ~= "," then fail(s, at, "',' or '}' expected") end
    at = at + 1
  end
end

local WORDS = { ["true"] = true, ["false"] = false }

-- Returns the value at a place, and the place of what follows it.
function read_value(s, at, depth)
  if depth == DEPTH_MAX then fail(s, at, "nested too deeply") end
  at = skip(s, at)
  local c, value = s:sub(at, at), nil
  if c == "{" then value, at = read_object(s, at, depth + 1)
  elseif c == "[" then value, at = read_array(s, at, depth + 1)
  elseif c == '"' then value, at = read_string(s, at)
  elseif c == "" then fail(s, at, "the file ends early")
  elseif c:find("%a") then
    local word = s:match("^%a+", at)
    if WORDS[word] == nil and word ~= "null" then fail(s, at, "a value expected") end
    value, at = WORDS[word], at + #word
  else value, at = read_number(s, at) end
  return value, skip(s, at)
end

function M.read(s)
  local value, at = read_value(s, 1, 0)
  if at <= #s then fail(s, at, "more than one value") end
  return value
end

-- ---- shapes ----

-- Returns the value if it has the shape, else raises {message} that names the place. A shape is "text", "number" or
-- "count" (no negative number), {list = SHAPE}, or a table of shapes by name. Each may be nil in a value but for
-- elements of lists, which are left out when they are nil. Names that the shape lacks are ignored.
function M.check(value, shape, where)
  if value == nil then return nil end
  local kind = getmetatable(value) == ARRAY and "list" or type(value) == "table" and "object" or type(value)
  local function wrong(wanted)
    local is = kind == "string" and "a text" or kind == "object" and "an object" or "a " .. kind
    error({ string.format("%s is %s, where %s is expected", where == "" and "the whole" or where, is, wanted) })
  end
  if shape == "text" then
    return kind == "string" and value or wrong("a text")
  elseif shape == "number" or shape == "count" then
    if kind ~= "number" then wrong("a number") end
    if shape == "count" and value < 0 then error({ where .. " is negative" }) end
    return value
  end
  local out = {}
  if shape.list then
    if kind ~= "list" then wrong("a list") end
    for i = 1, value.n do out[#out + 1] = M.check(value[i], shape.list, where .. "[" .. i .. "]") end
    return out
  end
  if kind ~= "object" then wrong("an object") end
  for name, inner in pairs(shape) do
    out[name] = M.check(value[name], inner, where == "" and name or where .. "." .. name)
  end
  return out
end

return M
