@ -- The layout and the two entry points of each word width, for the movers that were included before; and those that move
@ -- in chunks.
@ if #marked > 0 then
@ include "templates/marked.cuh"

@ end
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
@   if entry.run then
    static __device__ __forceinline__ long long run(index word_index, const struct stridec_launch &a, index &back,
                                                    index &left)
    {
@     for _, line in ipairs(entry.run) do
        @(line)
@     end
    }
@   end
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
@ for _, m in ipairs(marked) do
extern "C" __global__ void __launch_bounds__(@(plan.marked.threads))
stridec_@(m.way)_marked(const struct stridec_launch a)
{
    typedef stridec_marked<stridec_way_@(m.way)<@(m.each)>> way;
@   if m.way == "unpack" then
    bool late = false;
@     if plan.marked.touched > 0 then
    if (a.end - a.begin <= @(plan.marked.touched)) {
        for (long long chunk = blockIdx.x; chunk * a.chunk < a.end - a.begin; chunk += gridDim.x) {
            const struct stridec_launch part = stridec_chunk(a, chunk);
            if (part.wrap)
                stridec_touch<stridec_layout_w@(m.width)<true>, way>(part);
            else
                stridec_touch<stridec_layout_w@(m.width)<false>, way>(part);
        }
    }
@     end
@   elseif plan.marked.pace > 0 then
    stridec_pace();
@   end
    for (long long chunk = blockIdx.x; chunk * a.chunk < a.end - a.begin; chunk += gridDim.x) {
        const struct stridec_launch part = stridec_chunk(a, chunk);
@   if m.way == "unpack" then
        stridec_await(a, chunk, late);
@   end
        if (part.wrap)
            stridec_@(m.mover)<stridec_layout_w@(m.width)<true>, way>(part);
        else
            stridec_@(m.mover)<stridec_layout_w@(m.width)<false>, way>(part);
@   if m.way == "pack" then
        stridec_mark(a, chunk);
@   end
    }
}

@ end
