-- Parts of larger arrays that applications send and that packing code finds hard: faces of a cube of
-- doubles, four-dimensional sub-blocks, blocks of a few bytes at a fixed pitch.

local function cube(size, subsize, dims)
    local sizes, subsizes, starts = {}, {}, {}
    for i = 1, dims do
        sizes[i], subsizes[i], starts[i] = size, subsize, 0
    end
    return subarray{sizes = sizes, subsizes = subsizes, starts = starts, order = "C", of = double}
end

-- One face of an n^3 cube in C order a[z][y][x]; `flat` is the dimension that it is one deep in.
local function face(n, flat)
    local subsizes = {n, n, n}
    subsizes[flat] = 1
    return subarray{sizes = {n, n, n}, subsizes = subsizes, starts = {0, 0, 0}, order = "C", of = double}
end

-- bytes in blocks of block bytes, one block every 512 bytes.
local function blocks(bytes, block)
    return hvector(bytes // block, block, 512, byte)
end

local KiB, MiB = 1 << 10, 1 << 20
local element = resized(0, 512, contiguous(8, byte))

return {
    face_xy = face(512, 1),           -- contiguous
    face_xz = face(512, 2),           -- rows
    face_yz = face(512, 3),           -- single doubles
    block_16_of_64 = cube(64, 16, 4),
    block_32_of_64 = cube(64, 32, 4),
    vector_1KiB_8 = blocks(KiB, 8),
    vector_1MiB_4 = blocks(MiB, 4),
    vector_1MiB_8 = blocks(MiB, 8),
    vector_1MiB_256 = blocks(MiB, 256),
    vector_4MiB_128 = blocks(4 * MiB, 128),
    vector_64MiB_4 = blocks(64 * MiB, 4),      -- spans 8 GiB
    vector_64MiB_32 = blocks(64 * MiB, 32),
    vector_64MiB_256 = blocks(64 * MiB, 256),
    resized_1MiB_8 = contiguous(MiB // 8, element),
}
