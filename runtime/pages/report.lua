-- report.lua: an HTML page of what a run did, from the JSON of `stridec run --stats=json:FILE`. It needs no other file.
local advice = require "advice"
local format = require "format"
local heatmap = require "heatmap"
local html = require "html"
local json = require "json"
local types = require "types"
local M = {}

local FORMAT = 1
local SLOW = 0.25            -- of the GPU's copy
local SLOW_BYTES = 1 << 20   -- packed by a type before its rate tells anything

local left_shape = { why = "text", calls = "count", bytes = "count" }
local way_shape = { protocol = "text", message_bytes = "count", calls = "count", bytes = "count", why = "text" }
local SHAPE = {
  stridec = "text", format = "number", date = "text", program = "text", mpi = "text", ranks = "count", hosts = "count",
  seconds = "count", empty = "text",
  gpu = { name = "text", copy_GB_s = "count" },
  totals = { calls = "count", bytes = "count", left_calls = "count", left_bytes = "count" },
  protocols = { list = { name = "text", calls = "count", bytes = "count", why = { list = "text" } } },
  types = { list = {
    names = { list = "text" }, reads = "text", signature = "text", form = "text", family = "text",
    size = "count", extent = "number", calls = "count", bytes = "count", launches = "count", GB_s = "count",
    kernel = { compiled = "count", cache = "count", ahead = "count", shared = "count" },
    ways = { list = way_shape }, left = { list = left_shape }, remarks = { list = "text" },
  } },
  left = { list = left_shape },
  pairs = { ranks = "count", bytes = { list = { list = "count" } } },
}

local function read(text)
  local data = json.read(text)
  if type(data) ~= "table" or type(data.format) ~= "number" then
    error({ "this is not what `stridec run --stats=json:FILE` writes: it has no number \"format\"" })
  end
  if data.format ~= FORMAT then
    error({ string.format("format %s is unknown: this stridec reads format %d", data.format, FORMAT) })
  end
  data = json.check(data, SHAPE, "")
  for _, name in ipairs { "protocols", "types", "left" } do data[name] = data[name] or {} end
  for _, name in ipairs { "totals", "gpu" } do data[name] = data[name] or {} end
  data.forms = types.merge(data.types)
  return data
end

local function sum(list, key)
  local n = 0
  for _, one in ipairs(list or {}) do n = n + (one[key] or 0) end
  return n
end

-- Returns a reason without what differs from message to message.
local function reason_of(why)
  return (why:gsub("^[%d.]+ us.* by ", "the quicker way, by "))
end

-- ---- what was left to the MPI, and the reasons of all ----

-- Returns {why, calls, bytes, types} for each reason, those of no type too. A sum over all types that the file has
-- under a type's reason stands for the types' own.
local function gather_left(data)
  local list, by_why = {}, {}
  local function entry(why)
    if not by_why[why] then
      by_why[why] = { why = why, types = {} }
      list[#list + 1] = by_why[why]
    end
    return by_why[why]
  end
  for _, l in ipairs(data.left) do
    local e = entry(l.why or "no reason is known")
    e.given, e.calls, e.bytes = true, l.calls, l.bytes
  end
  for _, t in ipairs(data.forms) do
    for _, l in ipairs(t.left) do
      local e = entry(l.why or "no reason is known")
      e.types[#e.types + 1] = types.name_of(t)
      if not e.given then
        e.calls = l.calls and (e.calls or 0) + l.calls or e.calls
        e.bytes = l.bytes and (e.bytes or 0) + l.bytes or e.bytes
      end
    end
  end
  for i, e in ipairs(list) do e.order = i end
  table.sort(list, format.by_bytes)
  return list
end

-- Returns {name, calls, bytes, whys = {{why, calls, bytes}...}} for each protocol: its reasons by the ways of the
-- types, and those that the protocol names alone without bytes.
local function gather_protocols(data)
  local list, by_name = {}, {}
  for _, p in ipairs(data.protocols) do
    local one = { name = p.name or "unnamed", calls = p.calls or 0, bytes = p.bytes or 0, whys = {}, known = {} }
    list[#list + 1], by_name[one.name] = one, one
  end
  local function add(p, why, calls, bytes)
    why = reason_of(why)
    local w = p.known[why]
    if not w then
      w = { why = why, calls = 0, bytes = 0, order = #p.whys }
      p.known[why], p.whys[#p.whys + 1] = w, w
    end
    w.calls, w.bytes = w.calls + (calls or 0), w.bytes + (bytes or 0)
  end
  for _, t in ipairs(data.forms) do
    for _, w in ipairs(t.ways) do
      local p = by_name[w.protocol]
      if p and w.why then add(p, w.why, w.calls, w.bytes) end
    end
  end
  for i, p in ipairs(data.protocols) do
    for _, why in ipairs(p.why or {}) do add(list[i], why) end
    table.sort(list[i].whys, format.by_bytes)
  end
  return list
end

-- ---- sections ----

local function head(data)
  local facts = {}
  local function add(what, text) if text and text ~= "" then facts[#facts + 1] = { what, text } end end
  add("date", data.date)
  add("MPI", data.mpi)
  add("GPU", data.gpu.name)
  add("ranks", data.ranks and format.count(data.ranks)
      .. (data.hosts and " on " .. format.plural(data.hosts, "host") or ""))
  add("stridec", data.stridec)
  local out = { '<header><h1>', html.escape(data.program or "a run with stridec"), '</h1><ul class="facts">' }
  for _, f in ipairs(facts) do
    out[#out + 1] = string.format('<li><span>%s</span> %s</li>', html.escape(f[1]), html.escape(f[2]))
  end
  out[#out + 1] = '</ul></header>\n'
  return table.concat(out)
end

local function best_rate(data)
  local best
  for _, t in ipairs(data.forms) do
    if t.GB_s and (not best or t.GB_s > best) then best = t.GB_s end
  end
  return best
end

local function headline(data)
  local t = data.totals
  local all = (t.bytes or 0) + (t.left_bytes or 0)
  local out = { '<dl class="tiles">' }
  local function tile(what, text, note)
    out[#out + 1] = string.format('<div><dt>%s</dt><dd>%s%s</dd></div>', html.escape(what), html.escape(text),
                                  note and '<small>' .. html.escape(note) .. '</small>' or "")
  end
  tile("moved by stridec", format.bytes_or(t.bytes, "–"), t.calls and format.plural(t.calls, "call"))
  local share = all > 0 and ", " .. format.percent(t.left_bytes or 0, all) .. " of bytes" or ""
  tile("left to the MPI", format.bytes_or(t.left_bytes, "–"),
       t.left_calls and format.plural(t.left_calls, "call") .. share)
  local forms = #data.forms < #data.types and "of " .. format.plural(#data.forms, "form")
  tile("datatypes", format.count(#data.types), forms)
  local best, copy = best_rate(data), data.gpu.copy_GB_s
  if best then
    local of = copy and copy > 0 and format.percent(best, copy) .. " of a copy on this GPU, "
    tile("best packing rate", format.rate(best) .. " GB/s", of and of .. format.rate(copy) .. " GB/s")
  end
  if data.seconds then tile("run time", string.format(data.seconds < 100 and "%.3g s" or "%.0f s", data.seconds)) end
  return table.concat(out) .. '</dl>\n' .. (data.empty and html.p("Nothing was counted: " .. data.empty, "note") or "")
end

local function protocols(data, list)
  local all, rows = math.max(1, sum(list, "bytes")), {}
  local function row(class, name, calls, bytes)
    local share = format.percent(bytes, all)
    rows[#rows + 1] = { class = class, string.format('<th scope="row">%s</th>', html.escape(name)),
                        html.number(format.count(calls)), html.number(format.bytes(bytes)), html.number(share),
                        html.markup(html.bar(bytes / all, share)) }
  end
  for _, p in ipairs(list) do
    row("main", p.name, p.calls, p.bytes)
    for _, w in ipairs(p.whys) do
      if w.bytes > 0 or w.calls > 0 then row("why", w.why, w.calls, w.bytes)
      else
        local only = '<th scope="row">' .. html.escape(w.why) .. '</th><td colspan="4"></td>'
        rows[#rows + 1] = { class = "why", only }
      end
    end
  end
  if #rows == 0 then return "" end
  return html.table("How messages travelled; below each way, why it was taken",
                    { "Way and reason", ">Calls", ">Bytes", ">Share", "" }, rows)
end

local function left_section(left)
  local rows = {}
  for i, l in ipairs(left) do
    local named = format.cut(table.concat(l.types, "; "), 200)
    rows[i] = { html.cell(l.why), html.cell(named), html.number(format.count_or(l.calls, "uncounted")),
                html.number(format.bytes_or(l.bytes, "uncounted")) }
  end
  if #rows == 0 then return html.p("Nothing that stridec counted.") end
  return html.table("Calls that the MPI served, by reason", { "Reason", "Types", ">Calls", ">Bytes" }, rows)
end

-- Sentences about the run as a whole, for advice.rules.
local function facts_of(data)
  local facts, copy, compiled, ranks = {}, data.gpu.copy_GB_s, 0, 0
  for _, t in ipairs(data.forms) do
    local slow = copy and copy > 0 and t.GB_s and t.GB_s < SLOW * copy and (t.bytes or 0) >= SLOW_BYTES
    if slow and not facts.slow then
      facts.slow = string.format("%s packed at %s GB/s, %s of a copy.", types.name_of(t), format.rate(t.GB_s),
                                 format.percent(t.GB_s, copy))
    end
    local k = t.kernel.compiled or 0
    compiled, ranks = compiled + (k > 0 and 1 or 0), math.max(ranks, k)
  end
  if compiled > 0 then
    facts.compiled = string.format("Kernels of %s were compiled, in up to %s.", format.plural(compiled, "type"),
                                   format.plural(ranks, "rank"))
  end
  return facts
end

local function reasons_of(data, left, list)
  local reasons = {}
  if data.empty then reasons[1] = { why = data.empty } end
  for _, l in ipairs(left) do reasons[#reasons + 1] = l end
  for _, p in ipairs(list) do
    for _, w in ipairs(p.whys) do reasons[#reasons + 1] = w end
  end
  for _, t in ipairs(data.forms) do
    for _, remark in ipairs(t.remarks) do reasons[#reasons + 1] = { why = remark } end
  end
  return reasons
end

local function help(data, left, list)
  local out = {}
  for _, one in ipairs(advice.choose(reasons_of(data, left, list), facts_of(data))) do
    local much = one.bytes > 0 and ' <small>' .. html.escape(format.bytes(one.bytes)) .. '</small>' or ""
    out[#out + 1] = string.format('<li%s><strong>%s</strong>%s<br>%s', one.rule.fine and ' class="fine"' or "",
                                  html.escape(one.rule.title), much, html.prose(one.rule.advice))
    local note = one.note and html.escape(one.note)
    local whys = #one.whys > 0 and "Reasons given: " .. html.escape(format.cut(table.concat(one.whys, "; "), 400))
    out[#out + 1] = '<br><span class="quiet">' .. (note or whys or "") .. '</span></li>\n'
  end
  if #out == 0 then return html.p("No known reason to change anything was found.") end
  return '<ul class="help">' .. table.concat(out) .. '</ul>\n'
end

-- Returns the page of a JSON text; raises {message} if the text is not what is expected.
function M.page(text)
  local data = read(text)
  local list, left = gather_protocols(data), gather_left(data)
  local p = data.pairs or {}
  local map = p.bytes and heatmap.html(p.bytes, p.ranks or data.ranks or 0) or ""
  return table.concat {
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    '<meta name="color-scheme" content="light dark">\n<meta name="generator" content="stridec report">\n',
    '<title>', html.escape(data.program or "a run"), ': stridec report</title>\n',
    '<style>\n', _G.read("draw.css"), _G.read("report.css"), '</style>\n</head>\n<body>\n', head(data), '<main>\n',
    headline(data),
    html.section("help", "What would help", help(data, left, list)),
    html.section("ways", "Bytes by way and reason", protocols(data, list)),
    html.section("types", "Datatypes", types.html(data.forms, data.gpu.copy_GB_s)),
    html.section("ranks", "From rank to rank", map),
    html.section("left", "Left to the MPI", left_section(left)),
    '</main>\n</body>\n</html>\n',
  }
end

return M
