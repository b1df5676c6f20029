typedef @(type.c) real;
struct element {
    real re, im;
};

struct stridec_sum {
    static __device__ __forceinline__ element of(const element &a, const element &b)
    {
        element both = {a.re + b.re, a.im + b.im};
        return both;
    }
};

/* Returns `size` with the sign of x. */
static __device__ __forceinline__ real stridec_signed(real size, real x)
{
    union {
        real number;
        @(type.bits) bits;
    } s;
    s.number = x;
    return s.bits >> (8 * sizeof s.bits - 1) ? -size : size;
}

static __device__ __forceinline__ bool stridec_infinite(real x)
{
    return x == x && x - x != x - x;
}

static __device__ __forceinline__ void stridec_box(element &x)
{
    x.re = stridec_signed(stridec_infinite(x.re) ? 1 : 0, x.re);
    x.im = stridec_signed(stridec_infinite(x.im) ? 1 : 0, x.im);
}

static __device__ __forceinline__ void stridec_drop_nan(element &x)
{
    if (x.re != x.re) x.re = stridec_signed(0, x.re);
    if (x.im != x.im) x.im = stridec_signed(0, x.im);
}

/* C's product (C11 annex G.5.1): a factor that is infinite makes it infinite. No step is fused with the next. */
struct stridec_prod {
    static __device__ element of(element a, element b)
    {
        const real ac = @(type.rn)mul_rn(a.re, b.re), bd = @(type.rn)mul_rn(a.im, b.im);
        const real ad = @(type.rn)mul_rn(a.re, b.im), bc = @(type.rn)mul_rn(a.im, b.re);
        element both = {ac - bd, ad + bc};
        if (both.re == both.re || both.im == both.im) return both;
        bool again = false;
        if (stridec_infinite(a.re) || stridec_infinite(a.im)) stridec_box(a), stridec_drop_nan(b), again = true;
        if (stridec_infinite(b.re) || stridec_infinite(b.im)) stridec_box(b), stridec_drop_nan(a), again = true;
        if (!again && (stridec_infinite(ac) || stridec_infinite(bd) || stridec_infinite(ad) || stridec_infinite(bc)))
            stridec_drop_nan(a), stridec_drop_nan(b), again = true;
        if (!again) return both;
        const real one = 1, zero = @(type.rn)mul_rn(one, 0), infinity = one / zero;
        both.re = infinity * (@(type.rn)mul_rn(a.re, b.re) - @(type.rn)mul_rn(a.im, b.im));
        both.im = infinity * (@(type.rn)mul_rn(a.re, b.im) + @(type.rn)mul_rn(a.im, b.re));
        return both;
    }
};
