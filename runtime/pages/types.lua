-- types.lua: the datatypes of a report: types of one form as one, and their table.
local draw = require "draw"
local format = require "format"
local html = require "html"
local M = {}

local TYPES_MAX = 200           -- shown; those with most bytes come first
local SIGNATURE_MAX = 1 << 20   -- bytes of one that is drawn
local NAMES_MAX, WAYS_MAX = 6, 8   -- shown of one form

-- ---- types of one form ----

local NUMBERS = { "calls", "bytes", "launches" }
local KERNELS = { { "compiled", "compiled" }, { "cache", "from the cache" }, { "ahead", "ahead of time" },
                  { "shared", "a shared kernel" } }

local function new_form(t)
  return { signature = t.signature, family = t.family, size = t.size, extent = t.extent, types = 0, names = {},
           reads = {}, kernel = {}, ways = {}, left = {}, remarks = {}, seen = {}, rated = 0, time = 0 }
end

-- Adds each text once.
local function add_texts(form, key, list)
  for _, text in ipairs(list or {}) do
    local mark = key .. "\0" .. text
    if not form.seen[mark] then form.seen[mark], form[key][#form[key] + 1] = true, text end
  end
end

-- Adds calls and bytes to the entry of the same texts and message length.
local function add_entries(form, key, list)
  for _, e in ipairs(list or {}) do
    local mark = table.concat({ key, e.protocol or "", e.message_bytes or "", e.why or "" }, "\0")
    local into = form.seen[mark]
    if not into then
      into = { protocol = e.protocol, message_bytes = e.message_bytes, why = e.why }
      form.seen[mark], form[key][#form[key] + 1] = into, into
    end
    for _, name in ipairs { "calls", "bytes" } do into[name] = e[name] and (into[name] or 0) + e[name] or into[name] end
  end
end

local function add_type(form, t)
  form.types = form.types + 1
  add_texts(form, "names", t.names)
  add_texts(form, "reads", { t.reads })
  add_texts(form, "remarks", t.remarks)
  add_entries(form, "ways", t.ways)
  add_entries(form, "left", t.left)
  for _, name in ipairs(NUMBERS) do form[name] = t[name] and (form[name] or 0) + t[name] or form[name] end
  for _, k in ipairs(KERNELS) do
    form.kernel[k[1]] = math.max(form.kernel[k[1]] or 0, t.kernel and t.kernel[k[1]] or 0)
  end
  if t.GB_s and t.GB_s > 0 and t.bytes and t.bytes > 0 then
    form.rated, form.time = form.rated + t.bytes, form.time + t.bytes / t.GB_s
    form.GB_s = form.rated / form.time
  elseif not form.GB_s then
    form.GB_s = t.GB_s
  end
end

-- Returns the types with those of one form and extent as one: numbers are added, ranks with a kernel are the most, the
-- rate is that of all bytes together.
function M.merge(types)
  local list, by_form = {}, {}
  for _, t in ipairs(types) do
    local key = t.form and t.form .. "\0" .. tostring(t.extent)
    local form = key and by_form[key] or new_form(t)
    if form.types == 0 then list[#list + 1] = form end
    if key then by_form[key] = form end
    add_type(form, t)
  end
  return list
end

-- ---- the table ----

-- The name of a form: the program's names, else how its types are built, else the signature.
function M.name_of(t)
  local names = #t.names > 0 and t.names or t.reads
  local text = table.concat(names, ", ", 1, math.min(NAMES_MAX, #names))
  if #names > NAMES_MAX then text = text .. string.format(" and %d more", #names - NAMES_MAX) end
  return format.cut(text ~= "" and text or t.signature or "a type", 240)
end

local function thumbnail(t)
  local text = t.signature
  if not text or #text > SIGNATURE_MAX or not text:find("^%a%(") then return '<span class="quiet">not drawn</span>' end
  local layout = tree(text)
  local lb = layout and math.min(layout.low, 0)   -- the file has no lower bound
  local extent = t.extent and math.tointeger(t.extent) or 0
  local svg = layout and draw.thumbnail { canonical = layout, lb = lb, ub = lb + extent }
  return svg or '<span class="quiet">not drawn</span>'
end

local function describe_way(w)
  local parts = { w.protocol or "a way" }
  if w.message_bytes then parts[#parts + 1] = " with " .. format.bytes(w.message_bytes) end
  if w.calls then parts[#parts + 1] = ", " .. format.plural(w.calls, "call") end
  if w.why then parts[#parts + 1] = ": " .. w.why end
  return table.concat(parts)
end

local function describe_type(t)
  local out = { '<strong>', html.escape(M.name_of(t)), '</strong>' }
  if #t.names > 0 and #t.reads > 0 then out[#out + 1] = '<br>' .. html.escape(format.cut(t.reads[1], 160)) end
  if t.signature then out[#out + 1] = '<br><code>' .. html.escape(format.cut(t.signature, 100)) .. '</code>' end
  if t.types > 1 then out[#out + 1] = '<br><small>' .. format.plural(t.types, "type") .. ' of this form</small>' end
  out[#out + 1] = '<ul class="ways">'
  for i, w in ipairs(t.ways) do w.order = i end
  table.sort(t.ways, format.by_bytes)
  for i = 1, math.min(WAYS_MAX, #t.ways) do
    out[#out + 1] = '<li>' .. html.escape(describe_way(t.ways[i])) .. '</li>'
  end
  if #t.ways > WAYS_MAX then out[#out + 1] = string.format('<li>%d more lengths and ways</li>', #t.ways - WAYS_MAX) end
  for _, l in ipairs(t.left) do
    local much = l.calls and format.plural(l.calls, "call") or "uncounted"
    out[#out + 1] = '<li class="left">' .. html.escape("left to the MPI, " .. much .. ": " .. (l.why or "")) .. '</li>'
  end
  for _, remark in ipairs(t.remarks) do out[#out + 1] = '<li>' .. html.escape(remark) .. '</li>' end
  out[#out + 1] = '</ul>'
  return table.concat(out)
end

local function rate_cell(t, copy)
  if not t.GB_s then return '<td class="quiet">not known</td>' end
  local text = format.rate(t.GB_s) .. " GB/s"
  if not copy or copy <= 0 then return html.cell(text) end
  local share = string.format("%s of %s GB/s", format.percent(t.GB_s, copy), format.rate(copy))
  local bar = html.bar(t.GB_s / copy, share)
  return html.markup(html.escape(text) .. '<br>' .. bar .. '<br><small>' .. html.escape(share) .. '</small>', "rate")
end

local function kernel_cell(t)
  local lines = { html.escape(t.family or "") }
  for _, k in ipairs(KERNELS) do
    local ranks = t.kernel[k[1]]
    if ranks > 0 then lines[#lines + 1] = html.escape(k[2] .. " in " .. format.plural(ranks, "rank")) end
  end
  if t.launches then lines[#lines + 1] = html.escape(format.plural(t.launches, "launch", "launches")) end
  return html.markup(table.concat(lines, '<br>'), "kernel")
end

-- Returns the bytes of a type; those that the MPI served count, too.
local function weight(t)
  local bytes = t.bytes or 0
  for _, l in ipairs(t.left) do bytes = bytes + (l.bytes or 0) end
  return bytes
end

-- Returns the table of what M.merge returned, and what is to be known of it; "" if there are no types.
function M.html(forms, copy)
  local list, rows, rest = {}, {}, { n = 0, bytes = 0 }
  for i, t in ipairs(forms) do list[i] = { t = t, order = i, bytes = weight(t) } end
  table.sort(list, format.by_bytes)
  for i, one in ipairs(list) do
    local t = one.t
    if i > TYPES_MAX then
      rest.n, rest.bytes = rest.n + 1, rest.bytes + one.bytes
    else
      local extent = t.extent and "<br><small>extent " .. format.bytes(t.extent) .. "</small>" or ""
      local size = format.bytes_or(t.size, "–") .. extent
      rows[i] = { html.markup(describe_type(t), "type"), html.markup(thumbnail(t), "thumb"), html.markup(size, "size"),
                  html.number(format.count_or(t.calls, "–")), html.number(format.bytes_or(t.bytes, "–")),
                  rate_cell(t, copy), kernel_cell(t) }
    end
  end
  if #rows == 0 then return "" end
  local note = "Rates are packed bytes from launch to completion."
  if copy then
    note = note .. " A bar is full where packing is as quick as a copy of as many bytes within this GPU's memory."
  end
  local more = rest.n > 0 and html.p(string.format("%s more, with %s, are not shown.", format.plural(rest.n, "type"),
                                                   format.bytes(rest.bytes))) or ""
  return html.p(note) .. html.p("In the layouts a colour is the place in the packed bytes, from blue (first) to orange "
    .. "(last); grey is not packed; a red frame is packed more than once. ⋮ and dotted lines: parts are left out.")
    .. html.table("Datatypes by the form of their layout, those with most bytes first",
      { "Type, and how it travelled", "Layout", "Size", ">Calls", ">Bytes", "Rate", "Kernel" }, rows) .. more
end

return M
