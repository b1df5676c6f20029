# bench.mk: `make bench-build` builds the benchmarks, `make bench` also runs them (bench/run.sh) and writes
# bench/results. The run needs neither a compiler nor Lua, so it can be done elsewhere from a built tree.
BENCH   = $(patsubst %,$(BUILD)/bench/%,pack commit fresh file pingpong hand stream halo stencil collectives \
                                      beside overhead search)
CPU_BENCH = $(patsubst %,$(BUILD)/bench/%,cpu_pack cpu_pack-count cpu_pingpong)
BENCH_C = -std=c11 -D_GNU_SOURCE $(WARN) $(CPPFLAGS) -Wno-stringop-overflow -O2 -isystem $(CUDA_INC)

bench-build: all $(BENCH) $(CPU_BENCH) $(BUILD)/tests/gpu_count $(BUILD)/examples/halo3d
bench: bench-build
	bench/cpu.sh bench/results $(BUILD)
	MPICC='$(MPICC)' CUDA_LIB='$(CUDA_LIB)' bench/run.sh $(BUILD)

LAYOUTS_C = bench/layouts.c bench/layouts_list.c bench/layouts_ddt.c
$(BUILD)/bench/pack: bench/best.c bench/limits.c bench/pack.h runtime/api/bench_hooks.h
$(BUILD)/bench/commit: bench/commit_lists.c bench/commit_lists.h
$(BUILD)/bench/overhead: bench/library.c bench/library.h
$(BUILD)/bench/pingpong: bench/together.c bench/together.h bench/mixed.c bench/mixed.h
$(BUILD)/bench/halo $(BUILD)/bench/stencil: $(patsubst %,bench/halo_%.c,block ways stream packed hand link run) \
                                            bench/halo.h \
                                            bench/together.c bench/together.h
$(BUILD)/bench/hand: bench/hand_kernels.c bench/hand.h bench/together.c bench/together.h
$(BUILD)/bench/stream: bench/together.c bench/together.h
$(BUILD)/bench/collectives: bench/collectives_cases.c bench/collectives.h bench/together.c bench/together.h
$(BUILD)/bench/%: bench/%.c bench/common.c bench/source.c bench/timing.c bench/json.c $(LAYOUTS_C) bench/common.h \
                  bench/timing.h bench/json.h bench/layouts.h bench/layouts_make.h
	@mkdir -p $(@D)
	$(MPICC) $(BENCH_C) $(filter %.c,$^) -o $@ $(LDFLAGS) -L$(CUDA_LIB) -lcudart -ldl

# Data in host memory: without CUDA. The loops by hand get what code of stridec's gets.
$(BUILD)/bench/cpu_pack-count: NO_AVX512 = -mno-avx512f   # valgrind does not know it
$(BUILD)/bench/cpu_pack $(BUILD)/bench/cpu_pack-count: bench/cpu_pack.c
$(BUILD)/bench/cpu_pingpong: bench/cpu_pingpong.c
$(CPU_BENCH): $(patsubst %,bench/%.c,cpu_common cpu_kernels json library timing layouts_ddt layouts_list) \
             $(patsubst %,bench/%.h,cpu_common cpu_kernels json library timing layouts_make)
	@mkdir -p $(@D)
	$(MPICC) $(BENCH_C) -O3 -march=native $(NO_AVX512) $(filter %.c,$^) -o $@ $(LDFLAGS) -ldl -lm

# The kernel search needs no MPI: the compiler, and what loads NVRTC.
SEARCH_C = bench/search.c bench/search_gpu.c bench/search_run.c bench/search_variant.c bench/search_wait.c \
           bench/search_scatter.c bench/timing.c
SEARCH_O = $(GEN_O) $(patsubst %,$(BUILD)/runtime/%.o,device/nvrtc device/nvrtc_compile device/cuda device/driver base/log base/env base/file \
                      base/chunk_settings)
$(BUILD)/bench/search: $(SEARCH_C) bench/search.h bench/timing.h bench/search_kernels.cu $(SEARCH_O)
	@mkdir -p $(@D)
	$(CC) $(BENCH_C) -pthread $(SEARCH_C) -o $@ $(LDFLAGS) -Wl,--start-group $(SEARCH_O) -Wl,--end-group -ldl -lm

.PHONY: bench bench-build
