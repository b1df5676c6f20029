/* ends.c: see ends.h. */
#include "ends.h"
#include "check.h"

void end_by_tests(MPI_Request *q)
{
    for (int flag = 0; !flag;) MPI_Test(q, &flag, MPI_STATUS_IGNORE);
}

void end_all(int way, int n, MPI_Request q[])
{
    int flag = 0, index = 0, done = 0, which[END_MOST], left = n;
    if (way == 0) MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
    while (way == 1 && !flag) MPI_Testall(n, q, &flag, MPI_STATUSES_IGNORE);
    for (; way == 2 && left; left--) MPI_Waitany(n, q, &index, MPI_STATUS_IGNORE);
    while (way == 3 && left) MPI_Waitsome(n, q, &done, which, MPI_STATUSES_IGNORE), left -= done;
    while (way == 4 && left) MPI_Testsome(n, q, &done, which, MPI_STATUSES_IGNORE), left -= done;
    for (; way == 5 && left; left--) MPI_Wait(&q[left - 1], MPI_STATUS_IGNORE);
    for (; way == 6 && left; left--) end_by_tests(&q[(left + my_rank) % n]);   /* each rank in an order of its own */
    for (; way == 7 && left; left--) MPI_Wait(&q[(left + my_rank) % n], MPI_STATUS_IGNORE);
}
