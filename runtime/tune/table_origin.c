/* table_origin.c: compares a table's origin with this system. */
#include "table_origin.h"
#include <mpi.h>
#include <string.h>
#include <time.h>

#define MPI_NAME_MAX sizeof ((struct tune_table *)0)->mpi

/* Writes the MPI library's name and version, without the rest of its text. */
static void mpi_name(char name[MPI_NAME_MAX])
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    PMPI_Get_library_version(version, &length);
    version[strcspn(version, ",\r\n")] = 0;
    for (char *c = version; *c; c++)
        if (*c == '\t') *c = ' ';
    snprintf(name, MPI_NAME_MAX, "%.*s", (int)MPI_NAME_MAX - 1, version);
    for (size_t n = strlen(name); n && name[n - 1] == ' ';) name[--n] = 0;
}

void tune_set_origin(struct tune_table *t, const struct device *d)
{
    int cuda = 0;
    time_t now = time(NULL);
    mpi_name(t->mpi);
    if (d) driver_get()->cuDriverGetVersion(&cuda);
    snprintf(t->machine, sizeof t->machine, "%s", d ? d->name : "any");
    snprintf(t->stridec, sizeof t->stridec, "%s", gen_version());
    if (d) snprintf(t->cuda, sizeof t->cuda, "%d.%d", cuda / 1000, cuda % 1000 / 10);
    strftime(t->date, sizeof t->date, "%Y-%m-%d", localtime(&now));
}

static bool differ(const char *said, const char *here)
{
    return *said && strcmp(said, "any") && strcmp(said, here);
}

bool tune_other_mpi(const struct tune_table *t, struct reason *why)
{
    char here[MPI_NAME_MAX];
    mpi_name(here);
    if (!differ(t->mpi, here)) return false;
    snprintf(why->text, sizeof why->text, "was measured with %s, this is %s", t->mpi, here);
    return true;
}

bool tune_other_stridec(const struct tune_table *t, struct reason *why)
{
    if (!differ(t->stridec, gen_version())) return false;
    snprintf(why->text, sizeof why->text, "was measured with stridec %s, this is %s", t->stridec, gen_version());
    return true;
}

bool tune_other_machine(const struct tune_table *t, const char *gpu, struct reason *why)
{
    if ((t->borrowed && !t->knob_rows) || !strcmp(t->machine, gpu)) return false;
    const char *name = *t->machine ? t->machine : "a GPU that it does not name";
    snprintf(why->text, sizeof why->text, "was measured on %s, this is %s", name, gpu);
    return true;
}
