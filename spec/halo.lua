-- The halo of a cubic block with 26 neighbours: what a rank sends in each direction (faces, edges, corners)
-- and the ghost cells that it receives there. Names are send_XYZ and recv_XYZ with m, o, p for -1, 0, +1.

local n, radius = 256, 2              -- cells of the block in each direction, depth of the halo
local side = n + 2 * radius           -- of the array, ghost cells included

-- Where the part of one direction begins, and how long it is.
local function send_part(d)
    if d == 0 then return radius, n end
    return d < 0 and radius or n, radius
end
local function recv_part(d)
    if d == 0 then return radius, n end
    return d < 0 and 0 or n + radius, radius
end

local function part(which, x, y, z)
    local starts, subsizes = {}, {}
    for i, d in ipairs{z, y, x} do    -- C order: x varies fastest
        starts[i], subsizes[i] = which(d)
    end
    return subarray{sizes = {side, side, side}, subsizes = subsizes, starts = starts, order = "C", of = float}
end

local letter = {[-1] = "m", [0] = "o", [1] = "p"}
local types = {}
for x = -1, 1 do
    for y = -1, 1 do
        for z = -1, 1 do
            if x ~= 0 or y ~= 0 or z ~= 0 then
                local direction = letter[x] .. letter[y] .. letter[z]
                types["send_" .. direction] = part(send_part, x, y, z)
                types["recv_" .. direction] = part(recv_part, x, y, z)
            end
        end
    end
end
return types
