/* collectives.c: the collectives that move data, in every form, with typed device buffers on all or some ranks.
 *
 * run: -n 1
 * run: -n 3
 * run: -n 4
 * run: STRIDEC_TRANSPORT=staged -n 2
 * run: STRIDEC_TRANSPORT=oneshot -n 2
 * run: LD_PRELOAD=@AWARE SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=device -n 2
 */
#include "jobs.h"

#define ROUNDS 6

static void check_call(const struct call *c, struct round *r, const char *where)
{
    for (enum form form = 0; form < FORMS; form++) {
        if (!form_exists(form) || !mpi_can(c, r, form)) continue;
        for (r->number = 0; r->number < ROUNDS; r->number++) {
            r->named = r->number == ROUNDS - 1;
            run_data(c, r, form);
        }
        report("%s, %s%s", c->name, form_name[form], where);
    }
}

static bool can_be_in_place(const struct call *c)
{
    return c->flags & (IN_PLACE_ALL | IN_PLACE_ROOT | IN_PLACE_OUT);
}

static void within_one_group(void)
{
    struct round r;
    round_all(&r, MPI_COMM_WORLD);
    for (int i = 0; i < data_call_count; i++) {
        r.in_place = false;
        check_call(&data_calls[i], &r, "");
        r.in_place = true;
        if (can_be_in_place(&data_calls[i])) check_call(&data_calls[i], &r, ", in place");
    }
}

/* Messages larger than what MPIs send at once. */
static void large_blocks(void)
{
    struct round r;
    round_all(&r, MPI_COMM_WORLD);
    r.scale = 40, r.named = false;
    for (int i = 0; i < data_call_count; i++) {
        for (r.number = 1; r.number < 4; r.number += 2) {
            run_data(&data_calls[i], &r, BLOCKING);
            run_data(&data_calls[i], &r, NONBLOCKING);
        }
        report("%s of large blocks", data_calls[i].name);
    }
}

static void between_groups(void)
{
    MPI_Comm inter;
    struct round r;
    if (num_ranks < 2) return;
    bool first = two_groups(&inter);
    round_all(&r, inter);
    r.first = first;
    for (int i = 0; i < data_call_count; i++) check_call(&data_calls[i], &r, ", between two groups");
    MPI_Comm_free(&inter);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv, -1);
    within_one_group();
    large_blocks();
    between_groups();
    return check_finish();
}
