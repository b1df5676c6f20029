-- The objects of TEMPI (Pearson et al. 2021, §2 and Fig. 1), each built in every way that the paper lists: a
-- row, a plane and a cuboid of floats inside an allocation. Whatever is called row_*, plane_* or cuboid_* has
-- one signature:  stridec inspect --signature tempi.lua
--
-- Where the paper's abridged formulas leave a unit open (a stride of A0 floats or of A0 bytes), the numbers
-- here are those that describe the same bytes each time.

local E0, E1, E2 = 100, 13, 47        -- the object, in floats
local A0, A1, A2 = 256, 512, 64       -- the allocation, in floats
local F = 4                           -- bytes of a float
local pitch, slice = A0 * F, A0 * A1 * F

local rows = {
    contiguous_float = contiguous(E0, float),
    contiguous_byte = contiguous(E0 * F, byte),
    vector_one_block = vector(1, E0, 1, float),
    vector_touching = vector(E0, F, F, byte),
    hvector = hvector(E0 * F, 1, 1, byte),
    subarray_float = subarray{sizes = {A0}, subsizes = {E0}, starts = {0}, of = float},
    subarray_byte = subarray{sizes = {A0 * F}, subsizes = {E0 * F}, starts = {0}, of = byte},
}

local planes = {
    vector_float = vector(E1, E0, A0, float),
    vector_byte = vector(E1, E0 * F, pitch, byte),
    subarray_float = subarray{sizes = {A1, A0}, subsizes = {E1, E0}, starts = {0, 0}, of = float},
    subarray_byte = subarray{sizes = {A1, pitch}, subsizes = {E1, E0 * F}, starts = {0, 0}, of = byte},
    subarray_fortran = subarray{sizes = {A0, A1}, subsizes = {E0, E1}, starts = {0, 0}, order = "Fortran", of = float},
    -- The extent of these two rows is the pitch, so they may be placed one after another.
    vector_of_subarray = vector(E1, 1, 1, rows.subarray_float),
    subarray_of_subarray = subarray{sizes = {A1}, subsizes = {E1}, starts = {0}, of = rows.subarray_byte},
}
for name, row in pairs(rows) do
    planes["hvector_of_" .. name] = hvector(E1, 1, pitch, row)
end

local cuboids = {
    subarray_float = subarray{sizes = {A2, A1, A0}, subsizes = {E2, E1, E0}, starts = {0, 0, 0}, of = float},
    subarray_byte = subarray{sizes = {A2, A1, pitch}, subsizes = {E2, E1, E0 * F}, starts = {0, 0, 0}, of = byte},
}
for name, plane in pairs(planes) do
    cuboids["hvector_of_" .. name] = hvector(E2, 1, slice, plane)
end

local types = {}
for kind, family in pairs{row = rows, plane = planes, cuboid = cuboids} do
    for name, t in pairs(family) do
        types[kind .. "_" .. name] = t
    end
end
return types
