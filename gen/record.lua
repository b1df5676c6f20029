-- record.lua: small records whose packed bytes are no multiple of any word, such as 17 bytes of a struct of 24.
--
-- Their members are wider than the words that divide everything. A record is { size =, align =, pieces = }: pieces
-- { place =, at =, width = } in pack order are its bytes in as few aligned accesses as its members allow: `at` counts
-- from the first byte's place, which is a multiple of align wherever the user's address and extent are, and step where
-- elements go on without one: that of one block is its size.
local record = {}

local SIZE_MAX, COPIES_MAX, WIDTH_MAX, GROUP = 64, 8, 8, 16

-- The parts of a dense block or of a seq of dense blocks; nil for others.
local function parts_of(node)
  if node.kind == "dense" then return { { off = 0, size = node.count } } end
  if node.kind ~= "seq" then return nil end
  local parts = {}
  for i, part in ipairs(node.part) do
    if part.kind ~= "dense" then return nil end
    parts[i] = { off = part.off - node.part[1].off, size = part.count }
  end
  return parts
end

-- Every number that moves the record as a whole, or'ed.
local function place_bits(tree)
  local bits, node = WIDTH_MAX, tree
  while node.child do
    bits = bits | (node.step or node.unit or 0) | node.child.off
    for _, at in ipairs(node.at or {}) do bits = bits | at end
    node = node.child
  end
  if node.kind == "seq" then bits = bits | node.part[1].off end
  return bits, node
end

local function cut(parts, align)
  local pieces, place = {}, 0
  for _, part in ipairs(parts) do
    local at, left = part.off, part.size
    while left > 0 do
      local width = align
      while width > left or at % width ~= 0 do width = width // 2 end
      pieces[#pieces + 1] = { place = place, at = at, width = width }
      place, at, left = place + width, at + width, left - width
    end
  end
  return pieces, place
end

-- nil where the record is large, or no better than bytes.
function record.of(tree)
  local bits, node = place_bits(tree)
  local parts = parts_of(node)
  if not parts or (node.size or SIZE_MAX + 1) > SIZE_MAX or node.size == 0 then return nil end
  local r = { align = bits & -bits }
  r.pieces, r.size = cut(parts, r.align)
  r.step = tree.kind == "dense" and r.size or 0
  -- Records that a group of the packed side can touch.
  r.copies = (r.size + GROUP - 1 + r.size - 1) // r.size
  if r.copies > COPIES_MAX or r.copies * #r.pieces >= GROUP then return nil end
  return r
end

return record
