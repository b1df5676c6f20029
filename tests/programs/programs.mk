# programs.mk: build/tests/programs/programs, which runs random MPI programs.
PROGRAMS_OUT = $(BUILD)/tests/programs
PROGRAMS_O   = $(patsubst tests/programs/%.c,$(PROGRAMS_OUT)/%.o,$(wildcard tests/programs/*.c))

programs: $(PROGRAMS_OUT)/programs
$(PROGRAMS_OUT)/%.o: tests/programs/%.c
	@mkdir -p $(@D)
	$(MPICC) $(MPI_CFLAGS) -c $< -o $@
$(PROGRAMS_OUT)/programs: $(PROGRAMS_O)
	$(MPICC) -pthread -o $@ $^ -L$(CUDA_LIB) -lcudart -lpthread -ldl

.PHONY: programs
