# fortran.mk: tests/fortran/calls.F90 through each of the MPI's three Fortran interfaces; MPIFORT as in examples.mk.
# It counts the simulated GPU's work, so it is linked to that. gfortran takes one argument type a procedure where there
# is no explicit interface, and warns of all others.
FORTRAN_OUT   = $(BUILD)/tests/fortran
FORTRAN_TESTS = $(FORTRAN_OUT)/calls_F08 $(FORTRAN_OUT)/calls_MPI $(FORTRAN_OUT)/calls_MPIF_H
FORTRAN_F08    = -Wall
FORTRAN_MPI    = -w -fallow-argument-mismatch
FORTRAN_MPIF_H = -w -fallow-argument-mismatch

fortran-tests: $(FORTRAN_TESTS)

$(FORTRAN_TESTS): $(FORTRAN_OUT)/calls_%: tests/fortran/calls.F90 $(BUILD)/examples/cuda_runtime.o $(SIM_LIBS)
	@mkdir -p $@.mod
	$(MPIFORT) -DUSE_$* -O1 $(FORTRAN_$*) -I$(BUILD)/examples -J$@.mod $(wordlist 1,2,$^) -o $@ $(LDFLAGS) -L$(SIM) -L$(CUDA_LIB) -lcudart -lcuda

.PHONY: fortran-tests
