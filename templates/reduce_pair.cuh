/* MPI's pairs of a value and an index. */
struct element {
    @(type.value) value;
    @(type.place) place;
};

/* `a` is of the earlier row. Of equal values the lower index counts. */
@ for _, op in ipairs(ops) do
struct stridec_@(op.name) {
    static __device__ __forceinline__ element of(const element &a, const element &b)
    {
        element both = b;
        if (a.value @(op.name == "maxloc" and ">" or "<") b.value) both = a;
        else if (a.value == b.value && a.place < b.place) both.place = a.place;
        return both;
    }
};
@ end
