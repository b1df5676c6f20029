/* search_kernels.cu: packing kernels in every shape that bench/search tries.
 *
 * Before this text come the layout's constants: LEN (bytes of a block), TOTAL (packed bytes) and
 * block_at(b), the offset of block b; PLAIN where the compiler is the
 * host's, which runs one thread after another: no hints, no shared memory. After it comes one SEARCH_KERNEL line a variant. */
struct search_args {
    unsigned char *packed, *user;
    unsigned zero;  /* 0, which the compiler does not know */
};
typedef unsigned long long u64;

template <int W> struct alignas(W) word {
    unsigned r[W / 4];
};

template <int W> static __device__ __forceinline__ long long place(unsigned at)
{
    const unsigned each = LEN / W;
    const unsigned b = at / each;
    return block_at(b) + (long long)(int)((at - b * each) * W);
}

#ifndef PLAIN
static __device__ __forceinline__ u64 policy_first()
{
    u64 p;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
    return p;
}
static __device__ __forceinline__ u64 policy_last()
{
    u64 p;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));
    return p;
}

#define LOAD(op, tail, ...)                                                                                            \
    do {                                                                                                               \
        if constexpr (W == 4)                                                                                          \
            asm volatile("ld.global" op ".u32 %0, [%1]" tail ";" : "=r"(v.r[0]) : "l"(p)__VA_ARGS__);                  \
        else if constexpr (W == 8)                                                                                     \
            asm volatile("ld.global" op ".v2.u32 {%0, %1}, [%2]" tail ";"                                              \
                         : "=r"(v.r[0]), "=r"(v.r[W > 4]) : "l"(p)__VA_ARGS__);                                        \
        else                                                                                                           \
            asm volatile("ld.global" op ".v4.u32 {%0, %1, %2, %3}, [%4]" tail ";"                                      \
                         : "=r"(v.r[0]), "=r"(v.r[W > 4]), "=r"(v.r[W > 8 ? 2 : 0]), "=r"(v.r[W > 8 ? 3 : 0])          \
                         : "l"(p)__VA_ARGS__);                                                                         \
    } while (0)
#define LOAD_HINT(make)                                                                                                \
    do {                                                                                                               \
        const u64 h = make;                                                                                            \
        if constexpr (W == 4)                                                                                          \
            LOAD(".L2::cache_hint", ", %2", , "l"(h));                                                                 \
        else if constexpr (W == 8)                                                                                     \
            LOAD(".L2::cache_hint", ", %3", , "l"(h));                                                                 \
        else                                                                                                           \
            LOAD(".L2::cache_hint", ", %5", , "l"(h));                                                                 \
    } while (0)
#define STORE(op, tail, ...)                                                                                           \
    do {                                                                                                               \
        if constexpr (W == 4)                                                                                          \
            asm volatile("st.global" op ".u32 [%0], %1" tail ";" ::"l"(p), "r"(v.r[0])__VA_ARGS__ : "memory");         \
        else if constexpr (W == 8)                                                                                     \
            asm volatile("st.global" op ".v2.u32 [%0], {%1, %2}" tail ";"                                              \
                         ::"l"(p), "r"(v.r[0]), "r"(v.r[W > 4])__VA_ARGS__ : "memory");                                \
        else                                                                                                           \
            asm volatile("st.global" op ".v4.u32 [%0], {%1, %2, %3, %4}" tail ";"                                      \
                         ::"l"(p), "r"(v.r[0]), "r"(v.r[W > 4]), "r"(v.r[W > 8 ? 2 : 0]),                              \
                           "r"(v.r[W > 8 ? 3 : 0])__VA_ARGS__ : "memory");                                             \
    } while (0)
#define STORE_HINT(make)                                                                                               \
    do {                                                                                                               \
        const u64 h = make;                                                                                            \
        if constexpr (W == 4)                                                                                          \
            STORE(".L2::cache_hint", ", %2", , "l"(h));                                                                \
        else if constexpr (W == 8)                                                                                     \
            STORE(".L2::cache_hint", ", %3", , "l"(h));                                                                \
        else                                                                                                           \
            STORE(".L2::cache_hint", ", %5", , "l"(h));                                                                \
    } while (0)
#endif

/* ORDER LOAD_HINT: names in search_variant.c. */
template <int W, int HINT> static __device__ __forceinline__ word<W> load(const unsigned char *p)
{
    word<W> v;
#ifndef PLAIN
    if constexpr (HINT == 1) LOAD(".nc", "");
    else if constexpr (HINT == 2) LOAD(".cs", "");
    else if constexpr (HINT == 3) LOAD(".cg", "");
    else if constexpr (HINT == 4) LOAD(".L2::64B", "");
    else if constexpr (HINT == 5) LOAD(".L2::128B", "");
    else if constexpr (HINT == 6) LOAD(".L2::256B", "");
    else if constexpr (HINT == 7) LOAD_HINT(policy_first());
    else if constexpr (HINT == 8) LOAD_HINT(policy_last());
    else if constexpr (HINT == 9) LOAD(".nc.L1::no_allocate", "");
    else if constexpr (HINT == 10) LOAD(".nc.L1::no_allocate.L2::256B", "");
    else
#endif
        v = *(const word<W> *)p;
    return v;
}

/* ORDER STORE_HINT */
template <int W, int HINT> static __device__ __forceinline__ void store(unsigned char *p, const word<W> &v)
{
#ifndef PLAIN
    if constexpr (HINT == 1) STORE(".cs", "");
    else if constexpr (HINT == 2) STORE(".cg", "");
    else if constexpr (HINT == 3) STORE(".wt", "");
    else if constexpr (HINT == 4) STORE_HINT(policy_first());
    else if constexpr (HINT == 5) STORE_HINT(policy_last());
    else if constexpr (HINT == 6) STORE(".L1::no_allocate", "");
    else if constexpr (HINT == 7 && W == 4) atomicExch((unsigned *)p, v.r[0]);
    else if constexpr (HINT == 7 && W == 8) atomicExch((u64 *)p, (u64)v.r[W > 4] << 32 | v.r[0]);
    else
#endif
        *(word<W> *)p = v;
}

/* Before storing to short blocks: ORDER FETCH. 1 asks for the sector, 2 reads the word and waits, 3 (never fit
 * for use: it rewrites bytes in the gaps) reads the sector and writes all of it. */
static __device__ __forceinline__ void ask(const unsigned char *p)
{
#ifndef PLAIN
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
}
template <int W> static __device__ __forceinline__ void store_sector(unsigned char *p, const word<W> &v)
{
    word<16> half[2];
    unsigned char *s = (unsigned char *)((u64)p & ~31ull);
    const unsigned at = (unsigned)((u64)p & 31) / W;
    half[0] = *(const word<16> *)s;
    half[1] = *(const word<16> *)(s + 16);
#pragma unroll
    for (int i = 0; i < 32 / W; i++)
#pragma unroll
        for (int j = 0; j < W / 4; j++)
            if (at == i) (i * W / 4 + j < 4 ? half[0].r[(i * W / 4 + j) & 3] : half[1].r[(i * W / 4 + j) & 3]) = v.r[j];
    *(word<16> *)s = half[0];
    *(word<16> *)(s + 16) = half[1];
}

/* The chunk that CTA b takes; S > 1: neighbouring CTAs take chunks of S distant bands. */
template <int S> static __device__ __forceinline__ unsigned ordered(unsigned b, unsigned chunks)
{
    if (S > 1 && chunks % S == 0) return (b % S) * (chunks / S) + b / S;
    return b;
}

/* One chunk: T threads move U items of PV packed bytes each, every item made of PV / W words of the user's side. */
template <bool PACK, int W, int PV, int U, int T, int MAP, int LD, int ST, int FETCH>
static __device__ __forceinline__ void chunk_move(const search_args &a, unsigned chunk)
{
    const unsigned items = TOTAL / PV, tid = threadIdx.x;
    const bool whole = items % (T * U) == 0;
    const int n = PV / W;
    unsigned at[U];
    word<W> v[U][n];

#pragma unroll
    for (int i = 0; i < U; i++) {
        if (MAP == 1) at[i] = chunk * (T * U) + tid / 32 * (32 * U) + i * 32 + tid % 32;
        else if (MAP == 2) at[i] = chunk * (T * U) + tid * U + i;
        else if (MAP == 3 && whole) at[i] = i * (items / U) + chunk * T + tid;
        else at[i] = chunk * (T * U) + i * T + tid;
    }
    if (!PACK && FETCH == 1) {
#pragma unroll
        for (int i = 0; i < U; i++)
#pragma unroll
            for (int j = 0; j < n; j++)
                if (whole || at[i] < items) ask(a.user + place<W>(at[i] * n + j));
    }
    unsigned old[U][n];
    if (!PACK && FETCH == 2) {
#pragma unroll
        for (int i = 0; i < U; i++)
#pragma unroll
            for (int j = 0; j < n; j++)
                if (whole || at[i] < items) old[i][j] = load<W, 0>(a.user + place<W>(at[i] * n + j)).r[0];
    }
#pragma unroll
    for (int i = 0; i < U; i++)
        if (whole || at[i] < items) {
            if (PACK) {
#pragma unroll
                for (int j = 0; j < n; j++) v[i][j] = load<W, LD>(a.user + place<W>(at[i] * n + j));
            } else {
                const word<PV> whole_item = load<PV, LD>(a.packed + (u64)at[i] * PV);
#pragma unroll
                for (int j = 0; j < PV / 4; j++) v[i][j / (W / 4)].r[j % (W / 4)] = whole_item.r[j];
            }
        }
#pragma unroll
    for (int i = 0; i < U; i++)
        if (whole || at[i] < items) {
            if (PACK) {
                word<PV> whole_item;
#pragma unroll
                for (int j = 0; j < PV / 4; j++) whole_item.r[j] = v[i][j / (W / 4)].r[j % (W / 4)];
                store<PV, ST>(a.packed + (u64)at[i] * PV, whole_item);
            } else {
#pragma unroll
                for (int j = 0; j < n; j++) {
                    if (FETCH == 2) v[i][j].r[0] |= old[i][j] & a.zero;
                    if (FETCH == 3) store_sector<W>(a.user + place<W>(at[i] * n + j), v[i][j]);
                    else store<W, ST>(a.user + place<W>(at[i] * n + j), v[i][j]);
                }
            }
        }
}

/* GRID 0: a CTA a chunk; 1: CTAs stride over the chunks; 2: each CTA takes one run of chunks. */
template <bool PACK, int W, int PV, int U, int T, int MAP, int LD, int ST, int FETCH, int GRID, int S>
static __device__ __forceinline__ void linear(const search_args &a)
{
    const unsigned chunks = (TOTAL / PV + T * U - 1) / (T * U);
    if (GRID == 0) {
        chunk_move<PACK, W, PV, U, T, MAP, LD, ST, FETCH>(a, ordered<S>(blockIdx.x, chunks));
    } else if (GRID == 1) {
        for (unsigned c = blockIdx.x; c < chunks; c += gridDim.x)
            chunk_move<PACK, W, PV, U, T, MAP, LD, ST, FETCH>(a, ordered<S>(c, chunks));
    } else {
        const unsigned first = (u64)chunks * blockIdx.x / gridDim.x, end = (u64)chunks * (blockIdx.x + 1) / gridDim.x;
        for (unsigned c = first; c < end; c++) chunk_move<PACK, W, PV, U, T, MAP, LD, ST, FETCH>(a, c);
    }
}

#ifndef PLAIN
/* Each warp turns U words of its lanes into 16-byte words of the packed side in shared memory. */
template <bool PACK, int W, int U, int T, int LD, int ST> static __device__ __forceinline__ void staged(const search_args &a)
{
    const int bytes = 32 * U * W;
    __shared__ alignas(16) unsigned char room[T / 32][bytes];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u64 first = ((u64)blockIdx.x * (T / 32) + warp) * bytes;
    unsigned char *const mine = room[warp];

    if (first >= TOTAL) return;
    if (PACK) {
        word<W> v[U];
#pragma unroll
        for (int i = 0; i < U; i++)
            if (first + (i * 32 + lane) * W < TOTAL) v[i] = load<W, LD>(a.user + place<W>(first / W + i * 32 + lane));
#pragma unroll
        for (int i = 0; i < U; i++) *(word<W> *)(mine + (i * 32 + lane) * W) = v[i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < U * W / 16; i++)
            if (first + (i * 32 + lane) * 16 < TOTAL)
                store<16, ST>(a.packed + first + (i * 32 + lane) * 16, *(word<16> *)(mine + (i * 32 + lane) * 16));
    } else {
        word<16> v[U * W / 16];
#pragma unroll
        for (int i = 0; i < U * W / 16; i++)
            if (first + (i * 32 + lane) * 16 < TOTAL) v[i] = load<16, LD>(a.packed + first + (i * 32 + lane) * 16);
#pragma unroll
        for (int i = 0; i < U * W / 16; i++) *(word<16> *)(mine + (i * 32 + lane) * 16) = v[i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < U; i++)
            if (first + (i * 32 + lane) * W < TOTAL)
                store<W, ST>(a.user + place<W>(first / W + i * 32 + lane), *(word<W> *)(mine + (i * 32 + lane) * W));
    }
}

static __device__ __forceinline__ unsigned shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ void bulk_in(void *to, const void *from, unsigned bytes, u64 *bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_at(to)), "l"(from), "r"(bytes), "r"(shared_at(bar)) : "memory");
}
static __device__ __forceinline__ void bulk_out(void *to, const void *from, unsigned bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_at(from)),
                 "r"(bytes) : "memory");
}
static __device__ __forceinline__ void bulk_out_end()
{
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}
static __device__ __forceinline__ void bulk_expect(u64 *bar, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(bar)), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void bulk_wait(u64 *bar)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(shared_at(bar)) : "memory");
}

/* Bulk copies between shared memory and the packed side; the user's side by words (ROWS 0) or bulk copies of
 * whole blocks (ROWS 1, blocks of 16 n bytes, W their length). */
template <bool PACK, int W, int U, int T, int ROWS, int LD, int ST>
static __device__ __forceinline__ void bulk(const search_args &a)
{
    const unsigned bytes = T * U * W;
    __shared__ alignas(128) unsigned char room[bytes];
    __shared__ alignas(8) u64 bar;
    const u64 first = (u64)blockIdx.x * bytes;
    const unsigned left = TOTAL - first < bytes ? (unsigned)(TOTAL - first) : bytes;

    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;\n"
                     "fence.proxy.async.shared::cta;" ::"r"(
            shared_at(&bar)) : "memory");
        if (!PACK || ROWS) bulk_expect(&bar, left);
        if (!PACK) bulk_in(room, a.packed + first, left, &bar);
    }
    __syncthreads();
    if (!PACK || (PACK && ROWS)) {
        if (PACK)
            for (unsigned i = threadIdx.x; i * W < left; i += T)
                bulk_in(room + i * W, a.user + block_at(first / W + i), W, &bar);
        bulk_wait(&bar);
    }
    if constexpr (!ROWS) {
        word<W> v[U];
#pragma unroll
        for (int i = 0; i < U; i++)
            if ((i * T + threadIdx.x) * W < left) {
                if (PACK) v[i] = load<W, LD>(a.user + place<W>(first / W + i * T + threadIdx.x));
                else store<W, ST>(a.user + place<W>(first / W + i * T + threadIdx.x),
                                  *(word<W> *)(room + (i * T + threadIdx.x) * W));
            }
        if (PACK) {
#pragma unroll
            for (int i = 0; i < U; i++) *(word<W> *)(room + (i * T + threadIdx.x) * W) = v[i];
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
        }
    } else if (!PACK) {
        for (unsigned i = threadIdx.x; i * W < left; i += T)
            bulk_out(a.user + block_at(first / W + i), room + i * W, W);
        bulk_out_end();
    }
    if (PACK && threadIdx.x == 0) {
        bulk_out(a.packed + first, room, left);
        bulk_out_end();
    }
}

#ifdef SIDE
/* A transpose of SIDE x SIDE doubles by tiles of 32 x 32 in shared memory. */
template <bool PACK, int T, int LD, int ST> static __device__ __forceinline__ void tile(const search_args &a)
{
    __shared__ u64 room[32][33];
    const unsigned x = threadIdx.x % 32, y0 = threadIdx.x / 32;
    const unsigned column = blockIdx.x % (SIDE / 32) * 32, row = blockIdx.x / (SIDE / 32) * 32;
    u64 *const from = (u64 *)(PACK ? a.user : a.packed), *const to = (u64 *)(PACK ? a.packed : a.user);
    word<8> v[32 * 32 / T];

#pragma unroll
    for (int i = 0; i < 32 * 32 / T; i++)
        v[i] = load<8, LD>((unsigned char *)(from + (row + y0 + i * (T / 32)) * SIDE + column + x));
#pragma unroll
    for (int i = 0; i < 32 * 32 / T; i++)
        room[y0 + i * (T / 32)][x] = (u64)v[i].r[1] << 32 | v[i].r[0];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32 * 32 / T; i++) {
        const u64 w = room[x][y0 + i * (T / 32)];
        word<8> out = {{(unsigned)w, (unsigned)(w >> 32)}};
        store<8, ST>((unsigned char *)(to + (column + y0 + i * (T / 32)) * SIDE + row + x), out);
    }
}
#endif
#endif

#define SEARCH_KERNEL(name, threads, body)                                                                             \
    extern "C" __global__ void __launch_bounds__(threads) name(const search_args a) { body(a); }

/* What checks the others: a byte's value is a hash of its address or place. */
static __device__ __forceinline__ unsigned hashed(u64 at, unsigned salt)
{
    unsigned x = (unsigned)at * 0x9e3779b1u ^ (unsigned)(at >> 32) * 0x85ebca77u ^ salt;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 13;
}
#ifdef CHECKERS
/* mode 0: fill words with their hash; 1: count those that differ from it. */
extern "C" __global__ void span_words(unsigned *p, u64 words, unsigned salt, int mode, unsigned *wrong)
{
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += (u64)gridDim.x * blockDim.x)
        if (mode == 0) p[i] = hashed(i, salt);
        else if (p[i] != hashed(i, salt)) *wrong = 1;
}
struct check_layout {
    int dims;
    long long count[4], step[4], length;  /* outermost first */
};
/* For each packed word: mode 0 compares packed with the hash of the user's word; 1 compares the user's word
 * with the hash of the packed word; 2 puts the user's word back. `user` is word `first` of the span. */
extern "C" __global__ void packed_words(unsigned *packed, unsigned *user, u64 words, struct check_layout l,
                                        u64 first, unsigned salt_user, unsigned salt_packed, int mode, unsigned *wrong)
{
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += (u64)gridDim.x * blockDim.x) {
        long long at = (long long)i * 4 % l.length, rest = (long long)i * 4 / l.length;
        for (int d = l.dims - 1; d >= 0; d--) {
            at += rest % l.count[d] * l.step[d];
            rest /= l.count[d];
        }
        at /= 4;
        const u64 place = first + (u64)at;
        if (mode == 0) {
            if (packed[i] != hashed(place, salt_user)) *wrong = 1;
        } else if (mode == 1) {
            if (user[at] != hashed(i, salt_packed)) *wrong = 1;
        } else {
            user[at] = hashed(place, salt_user);
        }
    }
}
extern "C" __global__ void nothing(void) {}
#endif
