-- shape.lua: the tree as a list of dimensions.
--
-- The first pass: a chain of strides over one dense block becomes { length =, offset =, size =, dims = },
-- dims outermost first, each { count =, step = }. `offset` sums the offsets below the root; the root's own
-- is added to the address at launch.
local shape = {}

-- nil if the tree is no such chain.
function shape.of(tree)
  local dims, offset, node = {}, 0, tree
  while node.kind == "stride" do
    dims[#dims + 1] = { count = node.count, step = node.step }
    node = node.child
    offset = offset + node.off
  end
  if node.kind ~= "dense" then return nil end
  return { length = node.count, offset = offset, size = tree.size, dims = dims }
end

-- The widest word, at most `limit` (a power of two), that divides the length, every step and the offset.
function shape.word(s, limit)
  local bits = limit | s.length | s.offset
  for _, dim in ipairs(s.dims) do bits = bits | dim.step end
  return bits & -bits
end

return shape
