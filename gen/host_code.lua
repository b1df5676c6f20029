-- host_code.lua: the words that C code for host memory (host.lua) is written in: where a node's copies lie, how many bytes it
-- has, the calls that move it.
local index = require "index"
local list = require "host_list"
local moves = require "moves"
local literal = index.literal
local list_count, at_type, start_type = list.count, list.at_type, list.start_type

local code = {}

-- Numbers the nodes, lists and lengths in order, and tells each node how many bytes an element has; gen.c fills the lists in
-- the same order.
function code.number(tree)
  local all = { nodes = {}, lists = 0, lengths = {} }
  local function visit(node)
    all.nodes[#all.nodes + 1] = node
    node.id, node.whole = #all.nodes, tree.size
    if node.kind == "table" or node.kind == "blocks" then
      node.list = all.lists
      all.lists = all.lists + 1
    end
    if node.kind == "dense" then all.lengths[node.count] = true end
    if node.child then visit(node.child) end
    for _, part in ipairs(node.part or {}) do visit(part) end
  end
  visit(tree)
  return all
end

function code.size(node)
  return node.size and literal(node.size) or ("size_%d(a)"):format(node.id)
end

function code.copies(node)
  return node.kind == "table" and list_count(node) or literal(node.kind == "index" and #node.at or node.count)
end

-- Sizes that follow from lists: functions, children first.
function code.size_lines(all, tree)
  local lines = {}
  for i = #all.nodes, 1, -1 do
    local node, text = all.nodes[i], nil
    if not node.size then
      if node.kind == "blocks" then
        local l = ("a->list[%d]"):format(node.list)
        text = ("%s.section ? section_end(&%s.section[%s.sections - 1]) : (s64)((const %s *)%s.start)[%s.count] * %d")
          :format(l, l, l, start_type(node, tree), l, l, node.unit)
      elseif node.kind == "seq" then
        local sum = {}
        for k, part in ipairs(node.part) do sum[k] = code.size(part) end
        text = table.concat(sum, " + ")
      else
        text = ("%s * %s"):format(code.copies(node), code.size(node.child))
      end
      lines[#lines + 1] = ("FAST s64 size_%d(const struct stridec_host *a) { return %s; }"):format(node.id, text)
    end
  end
  return lines
end

-- u + off, for a child.
function code.moved(address, off)
  return off == 0 and address or ("%s + %s"):format(address, literal(off))
end

-- The other side of what lies at u + at: packed, or of the same layout.
function code.other(way, at, packed)
  return way == "copy" and "p + " .. at or packed
end

-- A statement that moves a whole node.
function code.all_call(way, node, p, u)
  if node.kind ~= "dense" then return ("%s_all_%d(%s, %s, a);"):format(way, node.id, p, u) end
  local to, from = p, u
  if way == "unpack" then to, from = u, p end
  return ("copy_%d(%s, %s%s);"):format(node.count, to, from, moves.goes_past(node.count) and ", PAST(a)" or "")
end

function code.part_call(way, node, p, u, first, past)
  if node.kind == "dense" then
    return ("%s_any(%s, %s + %s, %s - (%s));"):format(way, p, u, first, past, first)
  end
  return ("%s_part_%d(%s, %s, %s, %s, a);"):format(way, node.id, p, u, first, past)
end

function code.add(lines, text, ...)
  lines[#lines + 1] = select("#", ...) > 0 and text:format(...) or text
end

-- Where copy i of a repeating node lies, from u.
function code.place(node, i)
  if node.kind == "stride" then return ("%s * %s"):format(i, literal(node.step)) end
  if node.kind == "index" then return ("(s64)at_%d[%s]"):format(node.id, i) end
  return ("(s64)((const %s *)a->list[%d].at)[%s] * %d"):format(at_type(node), node.list, i, node.unit)
end

return code
