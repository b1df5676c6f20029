-- html.lua: pieces of a page. Arguments named `html` are markup; all others are text, and escaped here.
local format = require "format"
local M = {}

local escape = format.escape
M.escape = escape

local function class_of(class) return class and ' class="' .. class .. '"' or "" end

function M.p(text, class) return '<p' .. class_of(class) .. '>' .. escape(text) .. '</p>' end

-- Returns prose as markup: what stands between backquotes is code.
function M.prose(text) return (escape(text):gsub("`(.-)`", "<code>%1</code>")) end

-- Returns a section with a heading, or "" if there is nothing to show.
function M.section(id, title, html)
  if html == "" then return "" end
  return string.format('<section id="%s" aria-labelledby="%s-title"><h2 id="%s-title">%s</h2>\n%s</section>\n',
                       id, id, id, escape(title), html)
end

-- A cell of a table: M.cell(text), M.number(text), M.markup(html).
function M.cell(text) return '<td>' .. escape(text) .. '</td>' end
function M.number(text) return '<td class="n">' .. escape(text) .. '</td>' end
function M.markup(html, class) return '<td' .. class_of(class) .. '>' .. html .. '</td>' end

-- Returns a table. `heads` are texts, those of columns of numbers with ">" before them; `rows` are lists of cells,
-- with .class.
function M.table(caption, heads, rows)
  local out = { '<div class="wide"><table><caption>', escape(caption), '</caption><thead><tr>' }
  for _, head in ipairs(heads) do
    local text = head:gsub("^>", "")
    out[#out + 1] = string.format('<th scope="col"%s>%s</th>', head:find("^>") and ' class="n"' or "", escape(text))
  end
  out[#out + 1] = '</tr></thead><tbody>\n'
  for _, row in ipairs(rows) do
    out[#out + 1] = '<tr' .. class_of(row.class) .. '>' .. table.concat(row) .. '</tr>\n'
  end
  out[#out + 1] = '</tbody></table></div>\n'
  return table.concat(out)
end

-- Returns a bar of a share between 0 and 1; `alt` says the same in words.
function M.bar(share, alt, class)
  local width = 120
  local fill = share > 0 and math.max(1, math.min(width, width * share)) or 0
  return string.format('<svg class="bar %s" role="img" width="%d" height="12" viewBox="0 0 %d 12"><title>%s</title>'
    .. '<rect class="track" width="%d" height="12" rx="2"/><rect class="fill" width="%.1f" height="12" rx="2"/></svg>',
    class or "", width, width, escape(alt), width, fill)
end

return M
