/* doctor.h: the checks of `stridec doctor`. doctor.c has the table; each adds what it finds to `c` (checkup.h). */
#ifndef STRIDEC_COMMAND_DOCTOR_H
#define STRIDEC_COMMAND_DOCTOR_H

#include "base/mpi_family.h"
#include "checkup.h"

typedef void doctor_check(struct checkup *c);

/* doctor_gpu.c */
doctor_check doctor_driver, doctor_gpus, doctor_peers, doctor_nvrtc, doctor_compiler, doctor_aot;
/* Finds the first GPU's name. Returns false if there is no GPU. */
bool doctor_first_gpu(char name[128]);

/* doctor_files.c */
doctor_check doctor_cache, doctor_tune;
/* Returns true if a file can be made in the folder. Tries it: root has permission even where the file system is
 * read-only. */
bool doctor_can_write(const char *folder);

/* doctor_system.c */
doctor_check doctor_version, doctor_library, doctor_shm, doctor_cma, doctor_limits, doctor_variables;

/* doctor_mpi.c */
doctor_check doctor_mpi, doctor_cuda_aware, doctor_launcher, doctor_mpirun;
/* Tells how this process was started. ALONE: by no launcher, or by one whose jobs this MPI does not join. */
enum doctor_start { START_NONE, START_JOB, START_ALONE };
enum doctor_start doctor_start(void);
/* Return the rank that the launcher gave, 0 if it gave none; and its number of ranks, 1 if it does not tell. */
int doctor_start_rank(void);
int doctor_start_size(void);
/* Returns true if an mpirun of this MPI may start jobs of the MPI that stridec is for. */
bool doctor_mpirun_fits(enum mpi_family family);

/* doctor_program.c: looks at a program, as `stridec run` would start it. */
void doctor_program(struct checkup *c, const char *program);

#endif
