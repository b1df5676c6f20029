# examples.mk: builds the examples the way a user would: mpicc, mpifort, -lcudart; nothing of stridec but its header,
# which lies where it would be installed.
# The Fortran wrapper of the MPI of MPICC: mpicc.mpich -> mpifort.mpich.
MPIFORT ?= $(dir $(filter /%,$(MPICC)))$(subst mpicc,mpifort,$(notdir $(MPICC)))
# The options of other compilers than GCC's: OPENACC=-acc OPENMP=-mp=gpu for nvfortran.
OPENACC ?= -fopenacc
OPENMP  ?= -fopenmp
# MPICH's MPI_STATUSES_IGNORE looks like an array of no elements to gcc.
EXAMPLE_C = -std=c11 $(WARN) $(CPPFLAGS) -Wno-stringop-overflow -O2 -isystem $(CUDA_INC)
EXAMPLE_F = -std=f2018 -Wall -O2
EXAMPLES  = $(addprefix $(BUILD)/examples/,halo3d columns send_column hand_packing neighbours halo3d_f pencils \
                                           halo_openacc halo_openmp stencil_graph)

examples: $(EXAMPLES)

$(BUILD)/include/stridec.h: runtime/api/stridec.h
	@mkdir -p $(@D)
	cp $< $@
$(BUILD)/examples/stencil_graph: ALSO = -lnvrtc
$(BUILD)/examples/%: examples/%.c $(BUILD)/include/stridec.h
	@mkdir -p $(@D)
	$(MPICC) $(EXAMPLE_C) -I$(BUILD)/include $< -o $@ $(LDFLAGS) -L$(CUDA_LIB) -lcudart $(ALSO) -ldl
$(BUILD)/examples/cuda_runtime.o: examples/cuda_runtime.f90
	@mkdir -p $(@D)
	$(MPIFORT) $(EXAMPLE_F) -J$(@D) -c $< -o $@
$(BUILD)/examples/halo3d_f: examples/halo3d.f90 $(BUILD)/examples/cuda_runtime.o
	$(MPIFORT) $(EXAMPLE_F) -I$(@D) $^ -o $@ $(LDFLAGS) -L$(CUDA_LIB) -lcudart
$(BUILD)/examples/pencils: examples/pencils.f90 $(BUILD)/examples/cuda_runtime.o
	$(MPIFORT) $(EXAMPLE_F) -I$(@D) $^ -o $@ $(LDFLAGS) -L$(CUDA_LIB) -lcudart
$(BUILD)/examples/halo_openacc: FLAG = $(OPENACC)
$(BUILD)/examples/halo_openmp: FLAG = $(OPENMP)
$(BUILD)/examples/halo_%: examples/halo_%.f90
	@mkdir -p $(@D)
	$(MPIFORT) $(EXAMPLE_F) $(FLAG) $< -o $@ $(LDFLAGS)
# Whether this machine has a GPU; asked by tests/demo.sh, tests/gpu.sh and bench/run.sh.
$(BUILD)/tests/gpu_count: tests/gpu_count.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra $(CPPFLAGS) $< -o $@ $(LDFLAGS) -ldl

.PHONY: examples
