# tests.mk: the tests: `make check` (no GPU needed), `make model`, `make check-gpu`, `make check-aware`, `make demo`, `make fuzz`,
# `make soak`.
include tests/sim/sim.mk
include examples/examples.mk
include bench/bench.mk
include tests/mpi/mpi.mk
include tests/programs/programs.mk
include tests/fuzz.mk
include tests/fortran/fortran.mk

MPICH_BUILD = $(BUILD)/mpich

# Unit tests link what they use; the stubs stay out, so that a test's MPI calls are the MPI's.
UNIT   = $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
CORE_O = $(filter-out $(BUILD)/runtime/stubs.o $(BUILD)/liblua.a,$(GEN_O) $(SPEC_O) $(RUNTIME_O))

$(BUILD)/libcore.a: $(CORE_O)
	rm -f $@
	ar rcs $@ $^
$(BUILD)/tests/unit/%.o: tests/unit/%.c
	@mkdir -p $(@D)
	$(MPICC) $(ALL) -Wno-stringop-overflow -c $< -o $@
$(UNIT): %: %.o $(BUILD)/libcore.a $(BUILD)/liblua.a
	$(MPICC) $(LDFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lcmocka -ldl -lm
# Parts of the command.
$(BUILD)/tests/unit/test_command: $(patsubst %,$(BUILD)/runtime/command/%.o,capture checkup messages text)

unit-tests: $(UNIT)
.SECONDARY: $(UNIT:%=%.o)

# Everything that `make check` runs, for one MPI.
check-build: all sim examples mpi-tests programs fortran-tests $(BUILD)/tests/gpu_count
check-build-all: check-build unit-tests $(SIM)/selftest \
                 $(patsubst %,$(BUILD)/bench/%,pack commit fresh overhead pingpong hand halo stencil collectives \
                                               cpu_pack cpu_pingpong)
	+$(MAKE) --no-print-directory MPICC=mpicc.mpich BUILD=$(MPICH_BUILD) CUDA_HOME=$(CUDA_HOME) WERROR=$(WERROR) check-build

# On all cores, unless the caller says how many.
CORES = $(if $(findstring j,$(firstword -$(MAKEFLAGS))),,-j$(shell nproc))

# What runs under ThreadSanitizer, for both MPIs.
check-build-threads: all sim mpi-tests unit-tests
	+$(MAKE) --no-print-directory MPICC=mpicc.mpich BUILD=$(MPICH_BUILD) CUDA_HOME=$(CUDA_HOME) all sim mpi-tests

check:
	$(DEPS) check
	+$(MAKE) --no-print-directory $(CORES) WERROR=-Werror $(if $(TSAN),check-build-threads,check-build-all)
	SAN='$(SAN)' CUDA_LIB='$(CUDA_LIB)' MPICC='$(MPICC)' tests/check.sh $(BUILD) $(MPICH_BUILD)

# What to run before each commit: two to three minutes on two cores, once built.
check-quick: all sim mpi-tests unit-tests
	QUICK=1 CUDA_LIB='$(CUDA_LIB)' MPICC='$(MPICC)' tests/check.sh $(BUILD) $(MPICH_BUILD)

# The life of a zero-copy message, in Promela: all orders of its steps, by spin. `make check` does it too.
model:
	CC='$(CC)' tests/model/run.sh

# mpi4py's whole test suite: many minutes where four ranks share fewer cores. `make check` runs a part of it.
check-mpi4py: all sim
	MPICC='$(MPICC)' tests/mpi4py.sh $(BUILD) --all
# Open MPI and MPICH as the Python index has them.
check-wheels:
	tests/wheels.sh $(BUILD)

# A CUDA-aware Open MPI on the simulated GPU: AWARE_MPI=PREFIX, or Debian's source package, which takes many minutes to build.
check-aware:
	CUDA_HOME='$(CUDA_HOME)' CUDA_LIB='$(CUDA_LIB)' tests/aware.sh $(BUILD)

# Fails each allocation and each call of the driver of a run in turn, in runs of their own: hours. FAILURES="host driver" for some.
failures: all sim mpi-tests
	MPICC='$(MPICC)' CUDA_LIB='$(CUDA_LIB)' tests/failures.sh $(BUILD) $(SAMPLE)

demo:
	$(DEPS) demo
	+$(MAKE) --no-print-directory all sim examples $(BUILD)/tests/gpu_count
	BUILD='$(BUILD)' MPICC='$(MPICC)' CUDA_LIB='$(CUDA_LIB)' tests/demo.sh

# Runs from what is built, without a compiler: the machine with the GPU may have none.
check-gpu:
	BUILD='$(BUILD)' MPICC='$(MPICC)' CUDA_LIB='$(CUDA_LIB)' tests/gpu.sh $(BUILD)

.PHONY: check check-quick check-aware check-build check-build-all check-build-threads check-gpu check-mpi4py check-wheels demo failures model unit-tests
