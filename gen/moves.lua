-- moves.lua: how a block of a constant length is copied in host memory.
local moves = {}

local INLINE_MAX = 512      -- bytes of a block that is copied by single moves ...
local LOOP_MAX = 4096       -- ... by a loop of them; longer ones by memcpy, or by what templates/host.c says
local LINES_MIN = 256       -- on Intel's a loop from here on (templates/host.c)
local PAST_MIN = 512        -- from here on they are stored past the caches where the call is long (templates/host.c)
moves.INLINE_MAX = INLINE_MAX

function moves.goes_past(bytes) return bytes >= PAST_MIN end

-- Blocks of which something else was measured to be quicker: 32 B at a time cross more lines than 16 (packing 4 KiB of 40 B
-- 1.0 to 1.2 times, Xeon and EPYC; unpacking 1.2, EPYC).
local KNOWN = {
  [40] = { { at = 0, bytes = 16 }, { at = 16, bytes = 16 }, { at = 32, bytes = 8 } },
}

-- Moves that copy a block of a constant length: { at =, bytes = }. The last one may overlap the one before.
function moves.list(bytes)
  if KNOWN[bytes] then return KNOWN[bytes] end
  local list, at = {}, 0
  while bytes - at >= 64 do
    list[#list + 1] = { at = at, bytes = 64 }
    at = at + 64
  end
  while at < bytes do
    local rest, width = bytes - at, 1
    while width * 2 <= rest do width = width * 2 end
    local over = width * 2
    if over ~= rest * 2 and over <= bytes and over <= 64 then   -- one that begins sooner instead of several
      list[#list + 1] = { at = bytes - over, bytes = over }
      return list
    end
    list[#list + 1] = { at = at, bytes = width }
    at = at + width
    if at < bytes and width > bytes - at then
      local last = 1
      while last < bytes - at do last = last * 2 end
      list[#list + 1] = { at = bytes - last, bytes = last }
      return list
    end
  end
  return list
end

-- Lines of C that copy a block of so many bytes from `from` to `to`.
function moves.lines(bytes)
  local lines = {}
  if moves.goes_past(bytes) then lines[1] = ("if (past) { copy_past(to, from, %d); return; }"):format(bytes) end
  if bytes > INLINE_MAX then
    lines[#lines + 1] = ("%s(to, from, %d);"):format(bytes > LOOP_MAX and "copy_long" or "copy_lines", bytes)
    return lines
  end
  if bytes >= LINES_MIN then lines[#lines + 1] = ("if (ALIGNS) { copy_lines(to, from, %d); return; }"):format(bytes) end
  for _, m in ipairs(moves.list(bytes)) do
    lines[#lines + 1] = ("COPY(to + %d, from + %d, %d);"):format(m.at, m.at, m.bytes)
  end
  return lines
end

-- The same in words.
function moves.words(bytes)
  local n = bytes > INLINE_MAX and 0 or #moves.list(bytes)
  local by = bytes > LOOP_MAX and "memcpy, on AMD's processors whole cache lines" or n == 0 and "a loop of moves" or n == 1 and "one move"
    or ("%d moves"):format(n)
  return by .. (moves.goes_past(bytes) and "; in long calls, on AMD's processors past the caches" or "")
end

return moves
