/* reduce.c: see reduce.h. */
#include "reduce.h"
#include "base/env.h"
#include "kernel_internal.h"

#define WORD 16

/* ORDER GEN_REDUCE_TYPES */
#define KERNEL(name) {.signature = "reduce " #name, .family = GEN_REDUCE, .refs = 1},
struct kernel kernel_reduce[GEN_REDUCE_TYPE_TOTAL] = {GEN_REDUCE_TYPES(KERNEL)};

static const struct {
    signed char bytes, alignment;
} elements[] = {
    [GEN_REDUCE_i8] = {1, 1},       [GEN_REDUCE_i16] = {2, 2},      [GEN_REDUCE_i32] = {4, 4},
    [GEN_REDUCE_i64] = {8, 8},      [GEN_REDUCE_u8] = {1, 1},       [GEN_REDUCE_u16] = {2, 2},
    [GEN_REDUCE_u32] = {4, 4},      [GEN_REDUCE_u64] = {8, 8},      [GEN_REDUCE_f32] = {4, 4},
    [GEN_REDUCE_f64] = {8, 8},      [GEN_REDUCE_c64] = {8, 4},      [GEN_REDUCE_c128] = {16, 8},
    [GEN_REDUCE_bool] = {1, 1},     [GEN_REDUCE_i16_i32] = {8, 4},  [GEN_REDUCE_i32_i32] = {8, 4},
    [GEN_REDUCE_i64_i32] = {16, 8}, [GEN_REDUCE_i64_i64] = {16, 8}, [GEN_REDUCE_f32_i32] = {8, 4},
    [GEN_REDUCE_f64_i32] = {16, 8}, [GEN_REDUCE_f32_f32] = {8, 4},  [GEN_REDUCE_f64_f64] = {16, 8},
};

int reduce_element_bytes(enum gen_reduce_type type)
{
    return elements[type].bytes;
}

int reduce_alignment(enum gen_reduce_type type)
{
    return elements[type].alignment;
}

bool reduce_ready(enum gen_reduce_type type, struct device *d)
{
    struct module *m = env_get()->engine == ENV_ENGINE_COPY ? NULL : module_of(&kernel_reduce[type], d);
    return m && module_request(m) == STAGE_READY;
}

/* Returns the words that one load brings at the beginning of a row; 0 if elements are moved one by one. */
static int64_t words_of(const struct reduce_job *job)
{
    int64_t bytes = elements[job->type].bytes;
    bool wide = bytes < WORD && job->type < GEN_REDUCE_i16_i32;   /* pairs have gaps */
    return wide && (job->from | job->to | (uint64_t)job->step) % WORD == 0 ? job->count / (WORD / bytes) : 0;
}

int reduce_move(struct device *d, struct stream *s, const struct reduce_job *job, int *launches)
{
    struct module *m = module_of(&kernel_reduce[job->type], d);
    struct stridec_reduce a = {.from = job->from, .to = job->to, .step = job->step, .count = job->count,
                               .words = words_of(job), .rows = (uint32_t)job->rows, .op = job->op, .all = job->all};
    int64_t blocks = launch_grid(&m->plan.way[0], m->plan.way[0].word, a.words ? a.words : a.count);
    if (blocks > INT32_MAX) blocks = INT32_MAX;
    launch_flag(d, s, blocks, &a.done, &a.ticket, &a.ended);
    return launch_enqueue(&(struct launch){m, KERNEL_PACK, 0, blocks, &a, sizeof a, a.done}, s, launches);
}
