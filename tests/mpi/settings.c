/* settings.c: ranks whose settings differ, and a second copy of the library: messages arrive, and the job ends.
 *
 * usage: settings [disabled N | twice]: rank N has STRIDEC_DISABLE=1 and, as all, STRIDEC_STATS=1, whose table all ranks make;
 * of two copies the first serves
 *
 * run: MPI_TEST_SIM=0 STRIDEC_STATS=1 -n 2 --host disabled 0
 * run: MPI_TEST_SIM=0 STRIDEC_STATS=1 -n 2 --host disabled 1
 * run: MPI_TEST_SIM=0 STRIDEC_STATS=1 STRIDEC_DISABLE=1 -n 2 --host
 * run: MPI_TEST_SIM=0 STRIDEC_HOST=on LD_PRELOAD=@TWICE -n 2 --host twice => warns
 */
#include "check.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 5, MESSAGES = 40, N = 20000 };

static void exchange(void)
{
    struct layout l;
    struct buf in, out;
    MPI_Datatype type;
    MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &type);
    type_commit(&type);
    layout_of(&l, type, 1, "every second double");
    buf_make(&out, MEM_HOST, &l, 0, 1), buf_make(&in, MEM_HOST, &l, 0, 2);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        buf_fill(&out, i + 10 * (uint64_t)my_rank);
        MPI_Sendrecv(out.origin, 1, type, 1 - my_rank, TAG, in.origin, 1, type, 1 - my_rank, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        buf_expect_from(&in, &l, &l, i + 10 * (uint64_t)(1 - my_rank));
        buf_check(&in, "between ranks of different settings");
    }
    buf_free(&in), buf_free(&out);
    layout_free(&l);
}

static void one_serves(void)
{
    long (*offers)(int in_place);
    *(void **)&offers = dlsym(RTLD_DEFAULT, "stridec_host_offers");
    long offered = offers ? offers(0) + offers(1) : -1;
    expect(offered > 0, "%ld messages were offered", offered);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "", *rank = argc > 3 ? argv[3] : "-";
    if (!strcmp(what, "disabled") && rank_given() == atoi(rank)) setenv("STRIDEC_DISABLE", "1", 1);   /* before stridec looks */
    check_start(&argc, &argv, -1);
    exchange();
    if (!strcmp(what, "twice")) one_serves();
    report("messages");
    return check_finish();
}
