# mpi.mk: the multi-rank test programs, one from each tests/mpi/NAME.c and the common files.
MPI_COMMON = check memory types resources ends ring rows places reference reduce_task jobs jobs_calls offers_rest
MPI_TESTS  = $(filter-out $(MPI_COMMON),$(patsubst tests/mpi/%.c,%,$(wildcard tests/mpi/*.c)))
MPI_OUT    = $(BUILD)/tests/mpi
# MPICH's MPI_STATUSES_IGNORE is the address 1: gcc takes it for an array that is too small.
MPI_CFLAGS = -std=c11 -D_GNU_SOURCE -pthread $(WARN) -Wno-stringop-overflow $(CPPFLAGS) $(CFLAGS) -O1 -MMD -MP -isystem $(CUDA_INC)

mpi-tests: $(MPI_TESTS:%=$(MPI_OUT)/%) \
           $(patsubst %,$(MPI_OUT)/lib%.so,count attach late address memory vote streams flip ranges attributes)

# Another tool of the profiling interface; a process_vm_readv that fails, and one that brings a wrong byte; an MPI_Init
# that takes long; an MPICH that takes CUDA streams; what a CUDA-aware MPI misses; memory that runs out; a profiler that
# takes NVTX ranges; deleted attributes of types.
$(MPI_OUT)/lib%.so: tests/mpi/tool/%.c
	@mkdir -p $(@D)
	$(MPICC) $(MPI_CFLAGS) $(LDFLAGS) -fPIC -shared -o $@ $< -ldl

$(MPI_OUT)/%.o: tests/mpi/%.c
	@mkdir -p $(@D)
	$(MPICC) $(MPI_CFLAGS) -c $< -o $@
$(MPI_TESTS:%=$(MPI_OUT)/%): $(MPI_OUT)/%: $(MPI_OUT)/%.o $(MPI_COMMON:%=$(MPI_OUT)/%.o)
	$(MPICC) $(LDFLAGS) -pthread -o $@ $^ -L$(CUDA_LIB) -lcudart -lpthread -ldl

.PHONY: mpi-tests
.SECONDARY: $(MPI_TESTS:%=$(MPI_OUT)/%.o) $(MPI_COMMON:%=$(MPI_OUT)/%.o)
