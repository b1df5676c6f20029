# programs.mk: random MPI programs. `make fuzz-programs` runs PROGRAMS of them (2000), or as many as HOURS have room for, on the
# simulated GPU and in host memory, half of them with each MPI; TEST_SEED shows a run again. tests/programs/programs.sh says the rest.
PROGRAMS_OUT = $(BUILD)/tests/programs
PROGRAMS_O   = $(patsubst tests/programs/%.c,$(PROGRAMS_OUT)/%.o,$(wildcard tests/programs/*.c))

programs: $(PROGRAMS_OUT)/programs
$(PROGRAMS_OUT)/%.o: tests/programs/%.c
	@mkdir -p $(@D)
	$(MPICC) $(MPI_CFLAGS) -c $< -o $@
$(PROGRAMS_OUT)/programs: $(PROGRAMS_O)
	$(MPICC) $(LDFLAGS) -pthread -o $@ $^ -L$(CUDA_LIB) -lcudart -lpthread -ldl

fuzz-programs: all sim programs
	+$(MAKE) --no-print-directory MPICC=mpicc.mpich BUILD=$(MPICH_BUILD) CUDA_HOME=$(CUDA_HOME) all sim programs
	BUILD='$(BUILD)' MPICH_BUILD='$(MPICH_BUILD)' MPICC='$(MPICC)' tests/programs/both.sh

.PHONY: programs fuzz-programs
