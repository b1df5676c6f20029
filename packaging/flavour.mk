# flavour.mk: FLAVOUR, the MPI that $(MPICC) compiles for, as installed builds are named: openmpi-4, openmpi-5, mpich or
# mpi-abi (the standard ABI of MPI 5). runtime/command/flavour.c knows the same names. Asked of the compiler at first use.
FLAVOURS       = openmpi-4 openmpi-5 mpich mpi-abi
flavour_macros = $(shell printf '\043include <mpi.h>\n' | $(MPICC) -E -dM -x c - 2>/dev/null | \
                   awk '$$2 ~ /^(OMPI_MAJOR_VERSION|MPICH_VERSION|MPI_ABI_VERSION)$$/ { print $$2 "=" $$3 }')
flavour_of     = $(or $(patsubst OMPI_MAJOR_VERSION=%,openmpi-%,$(filter OMPI_MAJOR_VERSION=%,$1)),\
                   $(if $(filter MPICH_VERSION=%,$1),mpich),$(if $(filter MPI_ABI_VERSION=%,$1),mpi-abi),\
                   $(error MPICC=$(MPICC) compiles for an MPI that stridec does not know))
FLAVOUR        = $(eval FLAVOUR := $$(call flavour_of,$$(flavour_macros)))$(FLAVOUR)
