/* folder.h: a unit test's own folder: made before its tests, and removed after them. */
#ifndef STRIDEC_TESTS_UNIT_FOLDER_H
#define STRIDEC_TESTS_UNIT_FOLDER_H
#include <stdio.h>
#include <stdlib.h>

static char folder[64], path[128];

/* Returns the path of a file in it, until the next call. */
static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Runs a list of tests with the folder; its value is main's. */
#define RUN_IN_FOLDER(tests) (make_folder() ? remove_folder(cmocka_run_group_tests(tests, NULL, NULL)) : 1)

static int make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/stridec.XXXXXX");
    return mkdtemp(folder) != NULL;
}

static int remove_folder(int failed)
{
    char remove[96];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return system(remove) != 0 || failed;
}

#endif
