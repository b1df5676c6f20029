-- trees.lua: trees as gen.c hands them to Lua, for the specs.
local trees = {}

function trees.dense(length, off)
  return { kind = "dense", off = off or 0, size = length, count = length }
end

function trees.stride(count, step, child, off)
  return { kind = "stride", off = off or 0, size = child.size and count * child.size,
    size_number = not child.size and child.size_number + 2 or nil, count = count, step = step, child = child }
end

-- What gen.c says of a whole tree that is no chain of strides.
function trees.whole(tree, family, word, numbers)
  tree.family, tree.word, tree.bytes, tree.numbers = family, word, tree.size or 1 << 20, numbers or 0
  return tree
end

function trees.index(at, child)
  return { kind = "index", off = 0, size = #at * child.size, child = child, at = at }
end

-- Lists in memory; their sizes are numbers of the launch.
function trees.list(number, child)
  return { kind = "table", off = 0, size_number = number + 1, number = number, child = child, base = 0, entry = 4,
    unit = 8, start = 0 }
end

function trees.blocks(number)
  return { kind = "blocks", off = 0, size_number = number + 4, number = number, base = 4, entry = 2,
    group = 6, scale = 0, unit = 8, start = 2 }
end

function trees.seq(...)
  local size = 0
  for _, part in ipairs { ... } do size = size and part.size and size + part.size end
  return { kind = "seq", off = 0, size = size, size_number = not size and 9 or nil, part = { ... } }
end

return trees
