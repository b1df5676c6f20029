-- draw.lua: layouts as SVG: what `stridec inspect --svg` shows, and the thumbnails of reports. Pictures depend on the
-- layout alone.
local format = require "format"
local grid = require "grid"
local M = {}

local escape, count, bytes = format.escape, format.count, format.bytes

M.COLORS = 10          -- classes p0, p1, ... of draw.css, in the order of packing
local BREAK = 16       -- width of columns that are left out
local PAGE = { columns = 48, rows = 16, width = 14, height = 18, text = true }
local THUMB = { columns = 24, rows = 11, width = 7, height = 8, text = false }
local BYTES_MAX = 200000

-- ---- one picture of memory ----

-- Returns where columns lie: left[cell] of those shown, groups {x, width, cell} without breaks, breaks (x), width.
local function place_columns(g, width, x)
  local p = { left = {}, groups = {}, breaks = {}, cell = width }
  local last = -1
  for _, c in ipairs(g.shown) do
    if c ~= last + 1 then
      p.breaks[#p.breaks + 1] = x
      x = x + BREAK
    end
    if c ~= last + 1 or last == -1 then p.groups[#p.groups + 1] = { x = x, width = 0, cell = c } end
    local group = p.groups[#p.groups]
    p.left[c], group.width, x, last = x, group.width + width, x + width, c
  end
  if last < g.columns - 1 then
    p.breaks[#p.breaks + 1] = x
    x = x + BREAK
  end
  p.right = x
  return p
end

-- Returns the x of a place within a row, in cells; a place that is left out is the middle of its break.
local function x_of(p, g, at, is_end)
  local cell = is_end and math.ceil(at) - 1 or at // 1 | 0
  if p.left[cell] then return p.left[cell] + (at - cell) * p.cell end
  local x = p.groups[1].x
  for _, c in ipairs(g.shown) do
    if c > cell then break end
    x = p.left[c] + p.cell
  end
  return x + BREAK / 2
end

local function number(x) return (string.format("%.1f", x):gsub("%.0$", "")) end

local function rect(class, x, y, width, height)
  return string.format('<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>', class, number(x), number(y),
                       number(width), number(height))
end

local function text(class, x, y, s)
  return string.format('<text class="%s" x="%s" y="%s">%s</text>', class, number(x), number(y), escape(s))
end

-- Adds frames around what lies in several boxes of a row. Returns whether there are any.
local function paint_frames(out, boxes, style, y)
  table.sort(boxes, function(a, b) return a.x < b.x end)
  local reach, double = -math.huge, false
  for _, b in ipairs(boxes) do
    local right = b.twice and b.right or math.min(reach, b.right)
    if right > b.x + 0.5 then
      out[#out + 1] = rect("twice", b.x + 1.5, y + 2.5, right - b.x - 3, style.height - 5)
      double = true
    end
    reach = math.max(reach, b.right)
  end
  return double
end

-- Adds a row's memory, its blocks, and frames around what lies in several blocks. Returns whether there are any.
local function paint_row(out, g, tree, p, style, item, y)
  local low = g.low + item.row * g.pitch
  local cells = (math.min(low + g.pitch, g.high) - low) / g.cell
  for _, group in ipairs(p.groups) do
    local width = math.min(group.width, (cells - group.cell) * p.cell)
    if width > 0 then out[#out + 1] = rect("memory", group.x, y, width, style.height) end
  end
  local boxes, drawn = {}, {}
  for _, b in ipairs(grid.row(g, tree, item.row)) do
    local x, right = x_of(p, g, b.from), x_of(p, g, b.to, true)
    local place = x .. " " .. right
    if right - x >= 1 and drawn[place] then
      drawn[place].twice = true
    elseif right - x >= 1 and #boxes < 2 * #g.shown then
      local color = math.min(M.COLORS - 1, math.floor(M.COLORS * (b.packed / tree.size)))
      out[#out + 1] = rect("p" .. color, x + 0.5, y + 1, right - x - 1, style.height - 2)
      drawn[place] = { x = x, right = right }
      boxes[#boxes + 1] = drawn[place]
      local label = style.text and b.begins and count(b.index + 1)
      if label and #label * 6 + 4 <= right - x then out[#out + 1] = text("n", x + 3, y + style.height - 5, label) end
    end
  end
  return paint_frames(out, boxes, style, y)
end

-- Adds lines between cells and at breaks, from one row's top to another's bottom.
local function paint_lines(out, p, top, bottom)
  local d = {}
  for _, group in ipairs(p.groups) do
    for x = group.x + p.cell, group.x + group.width - 1, p.cell do
      d[#d + 1] = string.format("M%s %sV%s", number(x), number(top), number(bottom))
    end
  end
  if #d > 0 then out[#out + 1] = '<path class="lines" d="' .. table.concat(d) .. '"/>' end
  for _, at in ipairs(p.breaks) do
    out[#out + 1] = rect("break", at + 3, top, BREAK - 6, bottom - top)
    local left, right, from, to = number(at + 3), number(at + BREAK - 3), number(top), number(bottom)
    out[#out + 1] = string.format('<path class="cut" d="M%s %sV%sM%s %sV%s"/>', left, from, to, right, from, to)
  end
end

-- Adds the picture with its corner at (x, y). Returns its right end, its bottom, and whether bytes are packed twice.
local function paint(out, g, tree, style, x, y)
  local width = math.max(style.width, math.min(4 * style.width, style.width * 20 // #g.shown))
  local label = style.text and 6.8 * math.max(#count(g.low), #count(g.high)) + 16 or 0
  local p = place_columns(g, width, x + label)
  if style.text then
    for _, group in ipairs(p.groups) do
      local from = "+" .. count(group.cell * g.cell)
      local room = group == p.groups[#p.groups] and math.huge or group.width + BREAK
      if #from * 6.6 < room then out[#out + 1] = text("t", group.x, y + 10, from) end
    end
    if g.shown[#g.shown] < g.columns - 1 then
      out[#out + 1] = text("t", p.right + 2, y + 10, "… +" .. count(g.pitch))
    end
    y = y + 16
  end
  local double, begun = false, nil
  for _, item in ipairs(g.items) do
    if item.row then
      begun = begun or y
      if style.text then
        out[#out + 1] = text("t e", x + label - 8, y + style.height - 5, count(g.low + item.row * g.pitch))
      end
      double = paint_row(out, g, tree, p, style, item, y) or double
      y = y + style.height
    else
      if begun then paint_lines(out, p, begun, y) end
      begun = nil
      if style.text then
        local what = string.format("⋮  %s of %s %s", format.plural(item.skipped, "row"), bytes(g.pitch), item.text)
        out[#out + 1] = text("t", p.groups[1].x, y + style.height - 5, what)
        y = y + style.height
      else
        out[#out + 1] = text("t", p.groups[1].x + 1, y + style.height - 1, "⋮")
        y = y + style.height + 2
      end
    end
  end
  if begun then paint_lines(out, p, begun, y) end
  return p.right, y, double
end

-- Returns a small picture of a layout (grid.lua), or nil where it has none.
function M.thumbnail(layout)
  local g = grid.of(layout, THUMB)
  if not g then return nil end
  local out = {}
  local right, bottom = paint(out, g, layout.canonical, THUMB, 1, 1)
  local alt = string.format("Layout: %s of %s in %s of memory", format.plural(layout.canonical:blocks(), "block"),
                            bytes(layout.canonical.size), bytes(g.high - g.low))
  return string.format('<svg class="layout" role="img" width="%d" height="%d" viewBox="0 0 %d %d"><title>%s</title>'
    .. '%s</svg>', right + 1, bottom + 1, right + 1, bottom + 1, escape(alt), table.concat(out))
end

-- ---- a page with both trees ----

-- Adds lines of text, at most `most`, each cut. Returns the y behind them.
local function paint_text(out, s, x, y, most, columns)
  local lines, n = {}, 0
  for line in (s:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do
    n = n + 1
    if n <= most then lines[n] = line end
  end
  if n > most then lines[most + 1] = string.format("⋮  %s more", format.plural(n - most, "line")) end
  for _, line in ipairs(lines) do
    out[#out + 1] = text("m", x, y + 12, format.cut((line:gsub("  ", "\u{A0}\u{A0}")), columns))
    y = y + 16
  end
  return y
end

local TREE_COLUMNS, TREE_LINES, STEP_COLUMNS, STEP_LINES = 70, 20, 140, 12

local function paint_panel(out, tree, g, title, style, y)
  out[#out + 1] = text("h", 16, y + 14, string.format("%s: %s", title, format.plural(tree:blocks(), "block")))
  y = y + 24
  local right, bottom, double = 16, y, false
  if g then right, bottom, double = paint(out, g, tree, style, 16, y) end
  right = right + 40
  local behind = paint_text(out, tree:describe(), right, y + 14, TREE_LINES, TREE_COLUMNS)
  return math.max(bottom, behind) + 20, right + 7.3 * TREE_COLUMNS, double
end

local function paint_legend(out, g, double, y)
  local x = 16
  local function say(s)
    out[#out + 1] = text("t", x, y + 11, s)
    x = x + 5.9 * utf8.len(s) + 6
  end
  local function key(class, s)
    out[#out + 1] = rect(class, x + 12, y + 1, 13, 13)
    x = x + 32
    say(s)
  end
  say("packed first")
  for c = 0, M.COLORS - 1 do
    out[#out + 1] = rect("p" .. c, x, y, 14, 14)
    x = x + 14
  end
  x = x + 6
  say("packed last")
  key("memory", "not packed")
  if double then key("twice", "packed more than once") end
  x = x + 12
  say(string.format("a cell: %s, a row: %s", bytes(g.cell), bytes(g.pitch)))
end

local function page(l, style)
  local out, width, double, also = {}, 0, nil, nil
  local g = grid.of(l, style)
  local tree = l.canonical
  local facts = string.format("%s packed, extent %s from %s, touches bytes %s to %s", format.plural(tree.size, "byte"),
                              count(l.ub - l.lb), count(l.lb), count(tree.low), count(tree.high - 1))
  if tree.size == 0 then facts = string.format("empty, extent %s from %s", count(l.ub - l.lb), count(l.lb)) end
  if tree.size > 0 and not g then facts = facts .. "; too far apart to be drawn" end
  out[#out + 1] = text("h1", 16, 28, format.cut(l.name, 80))
  out[#out + 1] = text("t", 16, 48, facts)
  local y, right
  local same = l.built:equals(tree)
  y, width, double = paint_panel(out, l.built, g, same and "As built, and canonical" or "As built", style, 62)
  out[#out + 1] = text("h", 16, y + 14, "Rewrite rules that fired")
  y = paint_text(out, l.steps, 24, y + 22, STEP_LINES, STEP_COLUMNS) + 18
  right = 0
  if not same then y, right, also = paint_panel(out, tree, g, "Canonical", style, y) end
  y = paint_text(out, "signature: " .. l.signature, 16, y - 8, 1, STEP_COLUMNS) + 12
  if g then paint_legend(out, g, double or also, y) end
  width, y = math.ceil(math.max(width, right, 24 + 7.3 * STEP_COLUMNS)), math.ceil(y + 30)
  return string.format('<svg xmlns="http://www.w3.org/2000/svg" class="layout page" role="img" width="%d" height="%d" '
    .. 'viewBox="0 0 %d %d">\n<title>%s</title>\n<desc>%s</desc>\n<style>\n%s</style>\n<rect class="paper" width="%d" '
    .. 'height="%d"/>\n%s\n</svg>\n', width, y, width, y, escape(l.name), escape(facts), read("draw.css"), width, y,
    table.concat(out, "\n"))
end

-- Returns an SVG file of a layout before and after the rewrite rules: name, steps, signature, lb, ub, built, canonical.
function M.page(layout)
  local style = PAGE
  while true do
    local svg = page(layout, style)
    if #svg <= BYTES_MAX or style.columns <= 4 then return svg end
    local smaller = { columns = style.columns // 2, rows = math.max(8, style.rows // 2) }
    style = setmetatable(smaller, { __index = PAGE })
  end
end

return M
