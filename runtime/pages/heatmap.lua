-- heatmap.lua: who sent how many bytes to whom, as SVG and as a table.
local format = require "format"
local html = require "html"
local M = {}

local BINS_MAX, SIZE, SHADES, TOP = 64, 480, 8, 10
local RANKS_MAX = 1 << 31

-- Returns cells[from][to] in bins of ranks, the largest, the sum, and how many cells are not empty.
local function gather(pairs_of, ranks, each)
  local cells, most, least, sum = {}, 0, math.huge, 0
  for _, p in ipairs(pairs_of) do
    local from, to = p[1] // each, p[2] // each
    cells[from] = cells[from] or {}
    cells[from][to] = (cells[from][to] or 0) + p[3]
    sum = sum + p[3]
  end
  for _, row in pairs(cells) do
    for _, bytes in pairs(row) do
      if bytes > 0 then most, least = math.max(most, bytes), math.min(least, bytes) end
    end
  end
  return cells, most, least, sum
end

-- Shades are equal factors apart, as messages differ by orders of magnitude.
local function shade(bytes, least, most)
  if most <= least then return SHADES - 1 end
  return math.min(SHADES - 1, math.floor(SHADES * math.log(bytes / least) / math.log(most / least)))
end

local function axis(out, bins, each, cell, left, top)
  local step = math.max(1, math.ceil(26 / cell))
  for b = 0, bins - 1, step do
    local at, name = b * cell + cell / 2, format.count(b * each)
    out[#out + 1] = string.format('<text class="e" x="%d" y="%.1f">%s</text>', left - 5, top + at + 3.5, name)
    out[#out + 1] = string.format('<text class="c" x="%.1f" y="%d">%s</text>', left + at, top - 5, name)
  end
  out[#out + 1] = string.format('<text class="c" x="%.1f" y="11">to rank</text>', left + bins * cell / 2)
  out[#out + 1] = string.format('<text class="c" transform="translate(10 %.1f) rotate(-90)">from rank</text>',
                                top + bins * cell / 2)
end

local function legend(out, least, most, left, y)
  out[#out + 1] = string.format('<text x="%d" y="%d">%s</text>', left, y + 11, format.bytes(least))
  local x = left + 66
  for s = 0, SHADES - 1 do
    out[#out + 1] = string.format('<rect class="h%d" x="%d" y="%d" width="22" height="14"/>', s, x + 22 * s, y)
  end
  out[#out + 1] = string.format('<text x="%d" y="%d">%s</text>', x + 22 * SHADES + 6, y + 11, format.bytes(most))
end

local function draw(cells, least, most, bins, each)
  local cell = math.max(7, math.min(28, SIZE // bins))
  local left, top = 52, 30
  local paths, out = {}, {}
  for from = 0, bins - 1 do
    for to = 0, bins - 1 do
      local bytes = cells[from] and cells[from][to] or 0
      if bytes > 0 then
        local s = shade(bytes, least, most)
        paths[s] = paths[s] or {}
        local x, y, edge = left + to * cell, top + from * cell, cell - 1
        table.insert(paths[s], string.format("M%d %dh%dv%dh-%dz", x, y, edge, edge, edge))
      end
    end
  end
  local size = bins * cell
  out[#out + 1] = string.format('<rect class="field" x="%d" y="%d" width="%d" height="%d"/>', left - 1, top - 1,
                                size + 1, size + 1)
  for s = 0, SHADES - 1 do
    if paths[s] then out[#out + 1] = string.format('<path class="h%d" d="%s"/>', s, table.concat(paths[s])) end
  end
  axis(out, bins, each, cell, left, top)
  legend(out, least, most, left, top + size + 10)
  local width, height = math.max(left + size + 8, 400), top + size + 30
  return string.format('<svg class="heat" role="img" width="%d" height="%d" viewBox="0 0 %d %d"><title>Bytes from each '
    .. 'rank to each rank; the table beside has the largest</title>%s</svg>', width, height, width, height,
    table.concat(out))
end

local function names(bin, each, ranks)
  if each == 1 then return format.count(bin) end
  return string.format("%s to %s", format.count(bin * each), format.count(math.min(ranks, bin * each + each) - 1))
end

local function top_pairs(cells, sum, each, ranks)
  local all = {}
  for from, row in pairs(cells) do
    for to, bytes in pairs(row) do
      if bytes > 0 then all[#all + 1] = { from, to, bytes } end
    end
  end
  table.sort(all, function(a, b)
    if a[3] ~= b[3] then return a[3] > b[3] end
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  local rows = {}
  for i = 1, math.min(TOP, #all) do
    local p = all[i]
    rows[i] = { html.number(names(p[1], each, ranks)), html.number(names(p[2], each, ranks)),
                html.number(format.bytes(p[3])), html.number(format.percent(p[3], sum)) }
  end
  local caption = #all > TOP and string.format("The %d largest of %s", TOP, format.plural(#all, "pair"))
                  or "All pairs that sent anything"
  return html.table(caption, { ">From", ">To", ">Bytes", ">Share" }, rows)
end

-- Raises {message} where a pair names no rank.
local function check(p, ranks)
  for i = 1, 3 do
    if not p[i] or (i < 3 and (p[i] >= ranks or p[i] ~= p[i] // 1)) then
      error({ string.format("pairs.bytes holds [%s, %s, %s], of %s", p[1], p[2], p[3], format.plural(ranks, "rank")) })
    end
  end
end

-- Returns the picture and its table, "" if no rank sent anything. `list` holds {from, to, bytes}.
function M.html(list, ranks)
  if ranks > RANKS_MAX or ranks ~= ranks // 1 then error({ "pairs.ranks is no number of ranks" }) end
  for _, p in ipairs(list) do check(p, ranks) end
  local each = math.max(1, math.ceil(ranks / BINS_MAX))
  local cells, most, least, sum = gather(list, ranks, each)
  if most == 0 then return "" end
  local bins = math.ceil(ranks / each)
  local note = each > 1 and html.p(string.format("Each cell stands for %s times %s.", format.plural(each, "rank"),
                                                 format.plural(each, "rank"))) or ""
  return note .. '<div class="beside">' .. draw(cells, least, most, bins // 1 | 0, each // 1 | 0)
    .. top_pairs(cells, sum, each // 1 | 0, ranks) .. '</div>\n'
end

return M
