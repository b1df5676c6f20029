@ -- The layout and the two entry points of each word width, for the stridec_move that was included before.
@ for _, entry in ipairs(entries) do
template <bool WRAP> struct stridec_layout_w@(entry.width) {
    typedef stridec_word<@(entry.width)>::type word;
    typedef @(index_type) index;
    static __device__ __forceinline__ long long place(index word_index, const struct stridec_launch &a)
    {
@   for _, line in ipairs(entry.body) do
        @(line)
@   end
    }
};

@   for _, way in ipairs { "pack", "unpack" } do
extern "C" __global__ void __launch_bounds__(@(plan.threads)) stridec_@(way)_w@(entry.width)(const struct stridec_launch a)
{
    if (a.wrap)
        stridec_move<stridec_layout_w@(entry.width)<true>, @(way == "pack")>(a);
    else
        stridec_move<stridec_layout_w@(entry.width)<false>, @(way == "pack")>(a);
}

@   end
@ end
