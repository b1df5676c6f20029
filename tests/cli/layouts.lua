-- layouts.lua: types of all shapes, for the pictures of `stridec inspect --svg`.
local offsets, lengths, x = {}, {}, 7
for i = 1, 100000 do
  x = (x * 1103515245 + 12345) % 2147483648
  offsets[i], lengths[i] = i * 40 + x % 17, 1 + x % 5
end

local particle = resized(0, 48, struct({3, 1}, {0, 32}, {float, double}))

return {
  vector = vector(100, 100, 1024, float),
  thin = vector(1000, 1, 2, double),
  subarray = subarray { sizes = {64, 64, 64}, subsizes = {4, 8, 16}, starts = {2, 5, 7}, of = double },
  record = struct({1, 1, 3, 1}, {0, 8, 16, 44}, {int, double, double, char}),
  particles = vector(500, 1, 1, particle),
  indexed = indexed(lengths, offsets, double),
  negative = hvector(6, 2, -64, double),
  overlapping = hvector(6, 4, 16, double),
  nothing_between = contiguous(1 << 20, double),
  empty = contiguous(0, double),
  far = hvector(1 << 20, 1, 1 << 40, hvector(1 << 10, 1, 4096, double)),
  too_far = hvector(2, 1, 1 << 61, double),
  mixed = darray { size = 4, rank = 1, gsizes = {40, 40}, distribs = {"cyclic", "block"}, dargs = {3, 20},
                   psizes = {2, 2}, of = double },
  bytes = hindexed({1, 1, 1, 1, 1, 1, 1}, {0, 3, 1000, 1007, 50000, 50001, 123456}, byte),
}
