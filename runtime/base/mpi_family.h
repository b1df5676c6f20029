/* mpi_family.h: the families of MPIs, by the names of their libraries and by what they say of themselves. Needs no MPI
 * and no header of one. */
#ifndef STRIDEC_MPI_FAMILY_H
#define STRIDEC_MPI_FAMILY_H

/* ORDER MPI_FAMILY: the names in mpi_family.c. UNKNOWN: an MPI of another family; NONE: no MPI. */
enum mpi_family { MPI_FAMILY_OPEN_MPI, MPI_FAMILY_MPICH, MPI_FAMILY_STANDARD, MPI_FAMILY_UNKNOWN, MPI_FAMILY_NONE };

/* Returns the family's name, static; NULL for UNKNOWN and NONE. */
const char *mpi_family_name(enum mpi_family family);
/* Returns the family of an MPI, or of an mpirun, that has this version text; UNKNOWN if the text does not tell. */
enum mpi_family mpi_family_of_text(const char *version);
/* Returns the family of the MPI that has a library of this soname or file name, NONE if it is no MPI's. What an MPI has
 * beside its library, for Fortran and C++, does not count. */
enum mpi_family mpi_family_of_library(const char *name);

/* The sonames that may be loaded under; the last one is NULL. */
struct mpi_library {
    const char *soname;
    enum mpi_family family;
};
extern const struct mpi_library mpi_libraries[];

#endif
