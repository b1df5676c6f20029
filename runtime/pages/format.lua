-- format.lua: numbers for people, and text that is safe in HTML and XML.
local M = {}

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

-- Returns text for HTML and XML, in elements and in attributes. What neither may hold becomes U+FFFD.
function M.escape(text)
  text = tostring(text)
  if not utf8.len(text) then text = text:gsub("[\x80-\xff]+", "\u{FFFD}") end
  text = text:gsub("[%z\1-\8\11\12\14-\31\127]", "\u{FFFD}"):gsub("\xEF\xBF[\xBE\xBF]", "\u{FFFD}")
  return (text:gsub("[&<>\"']", ENTITIES))
end

-- Returns at most `most` characters of a text, the cut marked.
function M.cut(text, most)
  local length = utf8.len(text) or #text
  if length <= most then return text end
  local stop = utf8.len(text) and utf8.offset(text, most) or most
  return text:sub(1, stop - 1) .. "…"
end

-- Returns an integer with commas between thousands; other numbers to three digits.
function M.count(n)
  if math.type(n) == "float" then
    if n ~= math.floor(n) or math.abs(n) >= 1e15 then return string.format("%.3g", n) end
    n = math.tointeger(n)
  end
  local digits = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (digits:gsub("^(-?),", "%1"))
end

-- Returns a measured number to three digits, without an exponent.
function M.rate(n)
  if n > 0 and n < 0.005 then return "< 0.01" end
  if n >= 99.95 then return M.count(math.floor(n + 0.5)) end
  return string.format(n >= 9.995 and "%.1f" or "%.2f", n)
end

local UNITS = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" }

-- Returns bytes with three digits and a unit.
function M.bytes(n)
  local u = 1
  while math.abs(n) >= 1024 and u < #UNITS do n, u = n / 1024, u + 1 end
  if u == 1 then return M.count(n) .. " B" end
  if math.abs(n) >= 1e6 then return string.format("%.3g %s", n, UNITS[u]) end
  return string.format(n >= 99.95 and "%.0f %s" or n >= 9.995 and "%.1f %s" or "%.2f %s", n, UNITS[u])
end

function M.bytes_or(n, other) return n and M.bytes(n) or other end
function M.count_or(n, other) return n and M.count(n) or other end

-- For table.sort: those with most .bytes first, then in their .order.
function M.by_bytes(a, b)
  local x, y = a.bytes or 0, b.bytes or 0
  if x ~= y then return x > y end
  return a.order < b.order
end

-- Returns "1 row", "2 rows"; `many` is for words that take more than an s.
function M.plural(n, word, many) return M.count(n) .. " " .. (n == 1 and word or many or word .. "s") end

-- Returns a share of a whole in percent.
function M.percent(part, whole)
  if whole <= 0 then return "–" end
  local p = 100 * part / whole
  return p > 0 and p < 0.1 and "< 0.1 %" or string.format(p > 99.9 and p < 100 and "%.2f %%" or "%.1f %%", p)
end

return M
