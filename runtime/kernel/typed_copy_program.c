/* typed_copy_program.c: links for any layout: the kernel interprets each side's tree, word by word. */
#include "../../gen/form.h"
#include "typed_copy_internal.h"

#define WORD_MAX 16

/* Returns bits that limit the word width on a side. */
static uint64_t word_bits(const struct typed_copy_side *s, int64_t bytes)
{
    if (!s->tree) return s->user;
    return s->user | (uint64_t)s->kernel->word | (bytes > s->tree->size ? (uint64_t)s->extent : 0);
}

/* Gets the program of a side. Types without a form are excluded: their programs have any length. */
static bool get_program(const struct typed_copy_side *s, struct device *d, uint64_t *program)
{
    *program = 0;
    return !s->tree || (s->kernel->family != GEN_GENERIC && (*program = launch_program(s->kernel, d)));
}

int typed_copy_interpret(const struct typed_copy_job *job, struct device *d, struct stridec_link *out)
{
    uint64_t sides = word_bits(&job->from, job->bytes) | word_bits(&job->to, job->bytes);
    uint64_t bits = sides | (uint64_t)job->bytes | WORD_MAX;
    int64_t word = (int64_t)(bits & -bits);
    *out = (struct stridec_link){.from = job->from.user, .to = job->to.user};
    if (job->bytes / word > INT32_MAX) return 0;
    if (!get_program(&job->from, d, &out->program.at[0]) || !get_program(&job->to, d, &out->program.at[1])) return 0;
    out->program.extent[0] = job->from.extent;
    out->program.extent[1] = job->to.extent;
    out->code = (uint32_t)__builtin_ctz((unsigned)word) << 23;
    out->words = (uint32_t)(job->bytes / word);
    return 1;
}
