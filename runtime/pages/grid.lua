-- grid.lua: which bytes of a layout's memory a picture shows, as rows and columns of cells of one size. Long layouts
-- are shown in part: equal rows, empty rows, and columns in which no block begins or ends are left out.
local M = {}

local SCANNED_MAX = 600   -- rows that are looked at
local RUNS_MAX = 4096     -- blocks of a row that are looked at
local LIST_SCANS = 20000000   -- entries of lists that are looked at for that
local SPAN_MAX = 1 << 60      -- bytes; sums below stay within 64 bits

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return math.abs(a)
end

-- Returns the steps, without sign, of the innermost stride whose copies lie apart and of the one around it; nil where
-- there is none.
local function innermost(tree)
  local step, around
  while tree do
    if tree.kind == "stride" and tree.count > 1 and tree.step ~= 0 then step, around = math.abs(tree.step), step end
    tree = tree:child()
  end
  return step, around
end

-- Returns the bytes of a row: the step of the innermost stride, or several where that is short, if possible so many
-- that each copy of the stride around it begins a row; else as many cells as fit.
local function pitch(tree, cell, span, most)
  local step, around = innermost(tree)
  if not step then return span <= cell * most and span or cell * math.min(most, 32) end
  local several = step >= cell * 8 and 1 or math.max(1, cell * math.min(most, 24) // step)
  for n = several, several // 2 + 1, -1 do
    if around and around % (n * step) == 0 then
      several = n
      break
    end
  end
  return math.min(span, several * step)
end

-- Returns the blocks of a row, cut to it: lists of first and last + 1 cell (fractions where blocks have other units),
-- number, packed offset.
function M.row(g, tree, k)
  local low = g.low + k * g.pitch
  local high = math.min(low + g.pitch, g.high)
  local flat = tree:runs(low, high, RUNS_MAX)
  local row = {}
  for i = 1, #flat, 4 do
    local from, to = math.max(flat[i], low), math.min(flat[i] + flat[i + 1], high)
    row[#row + 1] = { from = (from - low) / g.cell, to = (to - low) / g.cell, index = flat[i + 3],
                      packed = flat[i + 2] + from - flat[i], begins = from == flat[i] }
  end
  return row
end

-- A text that is equal for rows whose blocks lie at the same places.
local function pattern(row)
  local parts = {}
  for _, b in ipairs(row) do parts[#parts + 1] = string.format("%d-%d", b.from, b.to) end
  table.sort(parts)
  return table.concat(parts, " ")
end

-- Returns the first row from `k` on that holds a block, or g.rows.
local function next_row(g, tree, k)
  local function empty(to)
    local flat = tree:runs(g.low + k * g.pitch, math.min(g.low + to * g.pitch, g.high), 1)
    return #flat == 0
  end
  local low, high = k, k + 1   -- rows [k, low) are empty
  while high < g.rows and empty(high) do low, high = high, math.min(k + 2 * (high - k), g.rows) end
  if high >= g.rows and empty(g.rows) then return g.rows end
  while high - low > 1 do
    local middle = low + (high - low) // 2
    if empty(middle) then low = middle else high = middle end
  end
  return low
end

-- Returns the end of the rows from `k` on that are like row k, and whether it is known.
local function alike(g, tree, k, text, budget)
  local last = k + 1
  while last < g.rows do
    if budget.left <= 0 then return last, false end
    budget.left = budget.left - 1
    if pattern(M.row(g, tree, last)) ~= text then break end
    last = last + 1
  end
  return last, true
end

-- Returns what is shown from top to bottom: {row = number} or {skipped = rows, text = what they are}.
local function choose_rows(g, tree, most)
  local shown, items = 0, {}
  local function show(k) items[#items + 1], shown = { row = k }, shown + 1 end
  local function skip(n, text) if n > 0 then items[#items + 1] = { skipped = n, text = text } end end
  if g.rows <= most then
    for k = 0, g.rows - 1 do show(k) end
    return items
  end
  local budget = { left = math.min(SCANNED_MAX, LIST_SCANS // g.listed) }
  local k, tail = 0, g.rows - 2
  while k < tail and shown < most - 4 do
    local row = M.row(g, tree, k)
    local text, last, known = pattern(row), nil, true
    if #row == 0 then last = next_row(g, tree, k) else last, known = alike(g, tree, k, text, budget) end
    local keep = last - k <= 4 and last - k or #row == 0 and 1 or 3
    for i = k, math.min(k + keep, tail) - 1 do show(i) end
    last = math.min(last, tail)
    k = math.min(k + keep, tail)
    if not known then break end
    skip(last - k, #row == 0 and "without data" or "like these")
    k = last
  end
  skip(tail - k, "more")
  show(tail)
  show(tail + 1)
  return items
end

-- Adds columns where fewer are left out than a break is wide.
local function fill_gaps(columns)
  for i = #columns, 2, -1 do
    if columns[i] - columns[i - 1] <= 3 then
      for c = columns[i] - 1, columns[i - 1] + 1, -1 do table.insert(columns, i, c) end
    end
  end
end

-- Returns the columns that are shown, a list of cells, all of them if they are at most `most`.
local function choose_columns(g, tree, items, most)
  local columns = {}
  if g.columns <= most then
    for c = 0, g.columns - 1 do columns[#columns + 1] = c end
    return columns
  end
  local edges = { 0 }
  for _, item in ipairs(items) do
    for _, b in ipairs(item.row and M.row(g, tree, item.row) or {}) do
      edges[#edges + 1], edges[#edges + 2] = b.from // 1 | 0, b.to // 1 | 0
    end
  end
  for radius = 12, 1, -1 do
    local kept = {}
    columns = {}
    for _, e in ipairs(edges) do
      for c = math.max(0, e - radius), math.min(g.columns, e + radius) - 1 do
        if not kept[c] then kept[c], columns[#columns + 1] = true, c end
      end
    end
    table.sort(columns)
    fill_gaps(columns)
    if #columns <= most then return columns end
  end
  return table.move(columns, 1, most, 1, {})
end

-- Returns the grid of a layout: cell, pitch, rows, columns (of a row), low, high, items (choose_rows), shown (columns).
-- `layout` has canonical, built (may be nil), lb and ub; `limits` has rows and columns.
function M.of(layout, limits)
  local tree = layout.canonical
  local low, high = tree.low, tree.high
  if layout.ub and layout.ub > layout.lb then low, high = math.min(low, layout.lb), math.max(high, layout.ub) end
  if tree.size == 0 or high - low <= 0 or high - low > SPAN_MAX then return nil end
  local cell = gcd(tree:granule(low), high - low)
  if layout.built then cell = gcd(cell, layout.built:granule(low)) end
  local g = { low = low, high = high, cell = cell, listed = math.max(1, math.min(tree:blocks(), tree.count)) }
  g.pitch = pitch(tree, cell, high - low, limits.columns)
  g.columns = (g.pitch + cell - 1) // cell
  g.rows = (high - low + g.pitch - 1) // g.pitch
  g.items = choose_rows(g, tree, limits.rows)
  g.shown = choose_columns(g, tree, g.items, limits.columns)
  return g
end

return M
