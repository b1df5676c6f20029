/* kinds.h: every kind of kernel that the generator makes, for tests that compile them all. It follows cmocka.h. */
#ifndef STRIDEC_TESTS_UNIT_KINDS_H
#define STRIDEC_TESTS_UNIT_KINDS_H
#include "../../gen/gen.h"

#define FOLD4(child) "s(2,3,s(2,5,s(2,7,s(2,11," child "))))"
#define FOLD20(child) FOLD4(FOLD4(FOLD4(FOLD4(FOLD4(child)))))
#define LIST(step) "0," #step ",3,77,1,9,8,2000,5,6,7,8,9,10,11,12,13,14,15"
#define BLOCKS4(at) "d(8)@1" #at ",d(16)@2" #at ",d(8)@3" #at ",d(3)@4" #at
#define BLOCKS BLOCKS4(00) "," BLOCKS4(10) "," BLOCKS4(20) "," BLOCKS4(30) "," BLOCKS4(40) "," BLOCKS4(50) "," \
    BLOCKS4(60) "," BLOCKS4(70) "," BLOCKS4(80)
#define FAR4(at) "99999990" #at ",99999991" #at ",99999993" #at ",99999994" #at
static const char *const kinds_signatures[] = {
    "d(0)",
    "d(1)",
    "d(4096)",
    "s(131072,512,d(8))",
    "s(100,-512,d(6))",
    "s(2,-9223372036854775807,d(1))",
    "s(1000,4096,s(100,16,d(4)))",
    "s(32,2097152,s(32,32768,s(32,512,d(256))))",
    "s(65536,65552,d(65536))", /* 4 GiB: 64-bit index arithmetic, several words a thread */
    "s(3,0,s(5,1,d(16)))",
    FOLD4("d(1)"),
    FOLD20(FOLD20(FOLD20("d(1)"))),
    "q(d(8),d(4)@12)",
    "s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))", /* records of 17 B: aligned groups of single bytes */
    "s(100,64,q(d(2),d(4)@8))",
    "s(300,1021,d(381))", /* long runs of narrow words */
    "s(9,90001,q(i(d(77);" LIST(816) "),d(333)@71001))",
    "i(s(3,96,d(8));" LIST(8) ")",
    "s(3,4096,i(q(d(8),d(4)@12);" LIST(16) "))",
    "q(" BLOCKS ",d(8)@40000,d(16)@40016)",
    "q(i(d(24);" LIST(24) "),i(d(8);" LIST(8) ")@8000,d(16)@9000)",
    "s(3,9223372036854775,q(d(4611686018427387),d(8)@9223372036854775))",
    "i(d(4294967296);" LIST(8589934592) ")", /* offsets of 40 bits; then of two words less or more */
    "i(d(8);" LIST(2147483648) ")",
    "i(d(8);" LIST(1099511627776) ")",
    "i(d(8);" FAR4(10) "," FAR4(20) "," FAR4(31) "," FAR4(40) "," FAR4(55) ")",
    "q(" BLOCKS ",d(8)@1099511627776)",
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Settings of gen/knobs.lua for both directions, and what the PTX of an entry must hold. */
static const struct {
    const char *signature, *knobs[2], *entry, *holds;
} kinds_settings[] = {
    {"s(4096,512,d(32))", {"move=bulk load=last", "order=far each=8 load=nc"}, "stridec_pack_w8",
     "cp.async.bulk.global"},
    {"s(4096,512,d(32))", {"move=bulk each=4 load=first", "load=nc word=16"}, "stridec_unpack_w16",
     "ld.global.nc.L1::no_allocate"},
    {"s(4096,512,d(8))", {"load=first each=4", "store=exch"}, "stridec_unpack_w8", "atom.global.exch.b64"},
    {"s(4096,512,d(8))", {"load=last word=4", "store=exch word=4 each=2"}, "stridec_pack_w4", "L2::cache_hint"},
    {"s(512,8,s(512,4096,d(8)))", {"threads=256 load=nc", "store=exch"}, "stridec_pack_w8", "bar.sync"},
    {"i(s(3,96,d(8));" LIST(8) ")", {"threads=512", "threads=1024"}, "stridec_pack_w1", ".maxntid 512"},
    {"s(300,1021,d(381))", {"move=shift", "move=shift each=32"}, "stridec_unpack_w1", "st.global.v4"},
    {"i(d(96);0,200,64,1000,8000,4000,600,712,100096,32,96,2000,3000,128,5120,6144,7168)",
     {"move=bulk each=2 load=last", "order=far each=4 store=exch"}, "stridec_pack_w8", "cp.async.bulk.global"},
};

/* Pairs: of chains of strides, of parts, of lists; wide and narrow words. */
static const char *const kinds_pairs[][2] = {
    {"s(256,4096,s(256,16,d(8)))", "s(256,8192,s(256,32,d(8)))"},
    {"s(4096,512,d(32))", "d(4096)"},
    {"s(65536,65552,d(65536))", "s(65536,70000,d(65536))"}, /* 64-bit index arithmetic */
    {"s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))", "s(65536,24,q(d(8),d(4)@8,d(4)@12,d(1)@16))"},
    {"i(s(3,96,d(8));" LIST(8) ")", "s(3,4096,i(q(d(8),d(4)@12);" LIST(16) "))"},
    {"q(" BLOCKS ",d(8)@40000,d(16)@40016)", "q(" BLOCKS ",d(8)@40000,d(16)@40016)"},
    {"q(" BLOCKS ",d(8)@1099511627776)", "s(100,-512,d(6))"},
};


/* Trees of which all ways of moving are tried: chains, of which one is transposed, and lists. */
static const char *const kinds_moved[] = {
    "s(512,8,s(512,4096,d(8)))",
    "s(131072,512,d(16))",
    "s(1048576,512,d(32))",
    "i(s(3,96,d(8));" LIST(8) ")",
};

static inline struct gen_kernel kinds_pair(struct gen *g, const char *target, const char *from, const char *to)
{
    struct gen_kernel k;
    struct reason why;
    struct tree *t[2] = {tree_parse(from, &why), tree_parse(to, &why)};
    struct form *f[2] = {form_of(t[0], &why), form_of(t[1], &why)};
    if (gen_link(g, f[0], f[1], target, &k, &why)) fail_msg("%s > %s: %s", from, to, why.text);
    for (int i = 0; i < 2; i++) {
        form_free(f[i]);
        tree_unref(t[i]);
    }
    return k;
}

static inline struct gen_kernel kinds_list(struct gen *g, const char *target)
{
    struct gen_kernel k;
    struct reason why;
    if (gen_link(g, NULL, NULL, target, &k, &why)) fail_msg("%s", why.text);
    return k;
}

/* kinds_each_... call this with each kind of kernel, and free it then. */
typedef void kinds_visit(const char *name, const struct gen_kernel *k);

static inline void kinds_tell(kinds_visit *visit, const char *name, struct gen_kernel *k)
{
    visit(name, k);
    gen_kernel_free(k);
}

static inline void kinds_each_type(struct gen *g, const char *target, kinds_visit *visit)
{
    struct gen_kernel k;
    struct reason why;
    for (size_t i = 0; i < COUNT(kinds_signatures); i++) {
        const char *signature = kinds_signatures[i];
        if (gen_kernel(g, signature, target, NULL, &k, &why)) fail_msg("%s: %s", signature, why.text);
        kinds_tell(visit, signature, &k);
    }
    for (size_t i = 0; i < COUNT(kinds_settings); i++) {
        const char *signature = kinds_settings[i].signature;
        if (gen_kernel(g, signature, target, kinds_settings[i].knobs, &k, &why)) fail_msg("%s", why.text);
        kinds_tell(visit, signature, &k);
    }
    if (gen_generic(g, target, &k, &why)) fail_msg("%s", why.text);
    kinds_tell(visit, "any type", &k);
}

static inline void kinds_each_other(struct gen *g, const char *target, kinds_visit *visit)
{
    struct reason why;
    struct gen_kernel k = kinds_list(g, target);
    kinds_tell(visit, "lists of links", &k);
    for (size_t i = 0; i < COUNT(kinds_pairs); i++) {
        k = kinds_pair(g, target, kinds_pairs[i][0], kinds_pairs[i][1]);
        kinds_tell(visit, kinds_pairs[i][0], &k);
    }
    for (int type = 0; type < GEN_REDUCE_TYPE_TOTAL; type++) {
        if (gen_reduce(g, (enum gen_reduce_type)type, target, &k, &why)) fail_msg("%s", why.text);
        kinds_tell(visit, gen_reduce_type_name((enum gen_reduce_type)type), &k);
    }
}

/* Every `step`th setting that is worth trying of kinds_moved, in both directions. */
static inline void kinds_each_setting(struct gen *g, const char *target, int step, kinds_visit *visit)
{
    struct reason why;
    for (size_t i = 0; i < 2 * COUNT(kinds_moved); i++) {
        struct tree *t = tree_parse(kinds_moved[i / 2], &why);
        struct form *f = form_of(t, &why);
        char **list;
        int n = gen_knob_list(g, f, target, (enum gen_direction)(i % 2), &list, &why);
        for (int s = 0; s < n; s += step) {
            struct gen_kernel k;
            const char *const knobs[2] = {i % 2 ? NULL : list[s], i % 2 ? list[s] : NULL};
            if (gen_kernel_form(g, f, target, knobs, &k, &why)) fail_msg("%s: %s", list[s], why.text);
            kinds_tell(visit, list[s], &k);
        }
        gen_knob_list_free(list);
        form_free(f);
        tree_unref(t);
    }
}

#endif
