# bench.mk: `make bench-build` builds the benchmarks, `make bench` also runs them (bench/run.sh) and writes
# bench/results. The run needs neither a compiler nor Lua, so it can be done elsewhere from a built tree.
BENCH   = $(BUILD)/bench/pack $(BUILD)/bench/pingpong
BENCH_C = -std=c11 -D_GNU_SOURCE $(WARN) -Wno-stringop-overflow -O2 -isystem $(CUDA_INC)

bench-build: all $(BENCH) $(BUILD)/tests/gpu_count $(BUILD)/examples/halo3d
bench: bench-build
	MPICC='$(MPICC)' CUDA_LIB='$(CUDA_LIB)' bench/run.sh $(BUILD)

$(BUILD)/bench/%: bench/%.c bench/common.c bench/layouts.c bench/common.h bench/layouts.h
	@mkdir -p $(@D)
	$(MPICC) $(BENCH_C) $(filter %.c,$^) -o $@ -L$(CUDA_LIB) -lcudart -ldl

.PHONY: bench bench-build
