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

local ROW_MAX = 1 << 27   -- bytes: templates/tile.cuh counts a few rows past a range

-- A transposed layout: the dimension of the smallest step, where all within it step further. { bytes = what of the
-- packed stream lies within it, rows = its count, step = }; nil where there is none.
function shape.transposed(s)
  local bytes, nearest, found = s.length, nil, nil
  for i = #s.dims, 1, -1 do
    local dim, step = s.dims[i], math.abs(s.dims[i].step)
    if nearest and step > 0 and step < nearest then found = { bytes = bytes, rows = dim.count, step = step } end
    if not nearest or step < nearest then nearest = step end
    bytes = bytes * dim.count
  end
  return found and found.bytes < ROW_MAX and found or nil
end

-- About the bytes of the user's side that are moved with one element's: in granules of `granule` bytes, those of
-- neighbouring blocks shared where blocks lie close.
function shape.touched(s, granule)
  local step = s.length
  if #s.dims > 0 then step = granule end
  for _, dim in ipairs(s.dims) do
    if dim.step ~= 0 then step = math.min(step, math.abs(dim.step)) end
  end
  if s.length >= granule or step <= s.length then return s.size end
  local blocks = s.size // math.max(s.length, 1)
  return blocks <= math.maxinteger // step and blocks * step or math.maxinteger
end

return shape
