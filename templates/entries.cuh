@ -- The layout and the two entry points of each word width, for the movers that were included before.
@ for _, entry in ipairs(entries) do
template <bool WRAP> struct stridec_layout_w@(entry.width) {
    typedef stridec_word<@(entry.width)>::type word;
    typedef @(index_type) index;
@   if entry.columns then
    static const index COLUMNS = @(entry.columns);
@   end
    static __device__ __forceinline__ long long place(index word_index, const struct stridec_launch &a)
    {
@   for _, line in ipairs(entry.body) do
        @(line)
@   end
    }
};

@   for _, way in ipairs { "pack", "unpack" } do
@     local mover = entry.mover[way]
@     local arguments = mover.room and "a, room" or "a"
extern "C" __global__ void __launch_bounds__(@(plan.way[way].threads))
stridec_@(way)_w@(entry.width)(const struct stridec_launch a)
{
@     if mover.room then
    alignas(16) __shared__ stridec_word<@(entry.width)>::type room[@(mover.room)];
@     end
    if (a.wrap)
        stridec_@(mover.name)<stridec_layout_w@(entry.width)<true>, stridec_way_@(way)<@(mover.each)>>(@(arguments));
    else
        stridec_@(mover.name)<stridec_layout_w@(entry.width)<false>, stridec_way_@(way)<@(mover.each)>>(@(arguments));
    stridec_done(a);
}

@   end
@ end
