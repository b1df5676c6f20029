-- trees.lua: trees as gen.c hands them to Lua, for the specs.
local trees = {}

function trees.dense(length, off)
  return { kind = "dense", off = off or 0, size = length, count = length }
end

function trees.stride(count, step, child, off)
  return { kind = "stride", off = off or 0, size = count * child.size, count = count, step = step, child = child }
end

function trees.index(at, child)
  return { kind = "index", off = 0, size = #at * child.size, count = #at, child = child, at = at }
end

function trees.seq(...)
  local size = 0
  for _, part in ipairs { ... } do size = size + part.size end
  return { kind = "seq", off = 0, size = size, count = select("#", ...), part = { ... } }
end

return trees
