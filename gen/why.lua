-- why.lua: a plan in words, for `stridec inspect`: a sentence for each decision, and what limits the kernels.
local shape = require "shape"

local why = {}

local GRANULE = 64   -- bytes that memory moves at least, with what lies around them

local function plural(n, noun) return ("%d %s%s"):format(n, noun, n == 1 and "" or "s") end

local IRREGULAR = {
  struct = "every offset and length is a constant of the source",
  indexed = "its offsets are in device memory, so that types that differ in them alone share this kernel",
  mixed = "parts and strides are constants of the source, long lists are in device memory",
}

local function count_nodes(node, counts)
  counts[node.kind] = (counts[node.kind] or 0) + 1
  if node.child then count_nodes(node.child, counts) end
  for _, part in ipairs(node.part or {}) do count_nodes(part, counts) end
  return counts
end

-- "2 strides, 1 table", most telling first.
local function say_nodes(tree)
  local counts, list = count_nodes(tree, {}), {}
  for _, kind in ipairs { "seq", "index", "table", "blocks", "stride", "dense" } do
    if counts[kind] then list[#list + 1] = ("%d %s"):format(counts[kind], kind) end
  end
  return table.concat(list, ", ")
end

local function say_family(p)
  local s = p.shape
  if p.tree then
    return ("family %s: a tree of %s; %s"):format(p.family, say_nodes(p.tree), IRREGULAR[p.family])
  end
  if p.family == "contiguous" then
    return ("family contiguous: one block of %d B; a copy, no kernel, unless elements lie apart"):format(s.length)
  end
  local dims = {}
  for i, dim in ipairs(s.dims) do dims[i] = ("%d x %d B"):format(dim.count, dim.step) end
  return ("family strided: blocks of %d B in %s (%s)"):format(s.length, plural(#dims, "dimension"),
    table.concat(dims, ", "))
end

local function say_words(p)
  local pack, unpack = p.way.pack.word, p.way.unpack.word
  local narrower = #p.words > 1
    and ("; narrower ones of %s B serve addresses, extents and ranges that it does not divide"):format(
      table.concat(p.words, ", ", 2)) or ""
  local widths = pack == unpack and ("%d B"):format(pack)
    or ("%d B when packing, %d B when unpacking"):format(pack, unpack)
  return ("words of %s: a power of two that divides the block%s%s"):format(widths,
    p.tree and ", every step and every offset" or #p.shape.dims > 0 and " and every step" or "", narrower)
end

local LOADS = {
  plain = "",
  nc = ", loaded past the L1 cache",
  first = ", loaded to leave the L2 cache first",
  last = ", loaded to stay in the L2 cache",
}
local MOVES = {
  shift = "moved 16 B at a time, shifted to the other side's alignment, by %s of %d threads",
  direct = "moved by %s of %d threads",
  tile = "moved by tiles of 32 x 32 words through shared memory, by %s of %d threads",
  bulk = "gathered in shared memory and stored by asynchronous copies (from sm_90 on), by %s of %d threads",
}

local function say_way(p, name, verb)
  local way = p.way[name]
  return ("%s: words of %d B, %s, %s a thread at a time%s%s%s, because %s"):format(verb, way.word,
    MOVES[way.move]:format("blocks", way.threads), plural(way.each, "word"), LOADS[way.load],
    way.store == "exch" and ", stored by atomic exchange" or "",
    way.order == "far" and ", those of a thread a whole grid apart" or "", way.why)
end

local function say_index(p)
  local up_to = (p.family == "indexed" or p.family == "mixed") and "up to " or ""   -- a class of sizes shares the kernel (gen/form.c)
  if p.index_bits == 32 then
    return ("index arithmetic in 32 bits: an element's " .. up_to .. "%d B are below 2^31, so any word in it counts in 32 bits; "
      .. "one launch covers at most 2^31 - 1 words"):format(p.bytes)
  end
  return ("index arithmetic in 64 bits: an element's %d B, counted in words of 1 B, pass 2^31"):format(p.bytes)
end

local function blocks_of(p, name)
  local way = p.way[name]
  local block = way.threads * way.each * way.word
  return p.bytes // block + (p.bytes % block > 0 and 1 or 0)
end

local function say_grid(p)
  return ("grid: one element is %s of threads to pack and %d to unpack, neighbouring threads taking neighbouring "
    .. "packed words%s; a smaller grid goes round"):format(plural(blocks_of(p, "pack"), "block"),
    blocks_of(p, "unpack"), p.row and (p.way.pack.move == "tile" or p.way.unpack.move == "tile") and " or neighbouring rows" or "")
end

-- "4 B", or with bases "2 B and 4 B for every 64".
local function say_code(node, more)
  local bases = node.base > 0 and (" and %d B for every %d"):format(node.base, 1 << node.group) or ""
  return ("%d B%s"):format(node.entry + more, bases)
end

-- What memory costs on the way, in words for each kind of list in the tree.
local function say_lists(node, list)
  if node.kind == "table" then
    list[#list + 1] = "an offset takes " .. say_code(node, 0)
  elseif node.kind == "blocks" then
    list[#list + 1] = ("a block takes %s, and is found in a table of where each piece of the packed stream begins"):format(
      say_code(node, node.start))
  end
  if node.child then say_lists(node.child, list) end
  for _, part in ipairs(node.part or {}) do say_lists(part, list) end
  return list
end

-- Bytes that a direction moves for one element of a strided tree, which may pass 2^63: what is written only in part is read
-- first.
local function moved(p, name)
  local touched = shape.touched(p.shape, GRANULE)
  return p.bytes + 1.0 * touched * (name == "unpack" and touched > p.bytes and 2 or 1), touched
end

local function say_moved(p, name, verb)
  local bytes, touched = moved(p, name)
  local us = bytes / p.gpu.bytes_per_us
  if us < p.gpu.launch_us then
    return ("%s an element: launch latency, since its %.0f B at %s's rate are %.1f us, below the %d us of any "
      .. "kernel"):format(verb, bytes, p.gpu.like, us, p.gpu.launch_us)
  end
  local what = touched > p.bytes
    and ("the 64-byte lines that its blocks touch, %d B for %d B used"):format(touched, p.bytes) or "its bytes"
  return ("%s an element: %s; all in all %.0f B, %.0f us of %s's memory"):format(verb, what, bytes, us, p.gpu.like)
end

local function say_limit(p)
  local list = p.tree and say_lists(p.tree, {}) or {}
  local lists = #list > 0 and (", and its list%s (%s)"):format(#list == 1 and "" or "s", table.concat(list, "; ")) or ""
  if p.record then
    return ("limit: records of %d B in %d accesses of up to %d B each, where address and extent are multiples of %d; "
      .. "16 packed B are one access%s"):format(p.record.size, #p.record.pieces, p.record.align, p.record.align, lists)
  end
  if p.gathers then
    return ("limit: words of %d B take an instruction each on the user's side; %d of them are one access on the packed "
      .. "side%s"):format(p.words[1], p.way.pack.each, lists)
  end
  if p.tree then return ("limit: the bytes and the sectors that the user's side touches%s"):format(lists) end
  return ("limit: %s; %s"):format(say_moved(p, "pack", "packing"), say_moved(p, "unpack", "unpacking"))
end

function why.tree(p)
  return { say_family(p), say_words(p), say_way(p, "pack", "packing"), say_way(p, "unpack", "unpacking"), say_index(p),
    say_grid(p), say_limit(p) }
end

function why.generic(p, too_large)
  return {
    too_large and "family generic: the tree is too large for source and too irregular for a list; it is interpreted"
      or "family generic: one kernel that interprets any tree",
    "words of 16, 8, 4 or 1 B: the launch takes the widest that divides every number of the tree and the addresses",
    "packing and unpacking: 1 word a thread at a time, because walking the tree takes longer than the load",
    "index arithmetic in 64 bits: the tree is not known when this is compiled",
    ("grid: a block of %d threads moves %d words, neighbouring threads neighbouring packed words"):format(
      p.way.pack.threads, p.way.pack.threads),
  }
end

return why
