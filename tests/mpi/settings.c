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
    expect_exchange(20000, 40, NULL, "between ranks of different settings");
    if (!strcmp(what, "twice")) one_serves();
    report("messages");
    return check_finish();
}
