# The simulated GPU: `make sim` builds $(BUILD)/sim/libcuda.so.1, libcudart.so.N and libnvrtc.so.N, to be put
# first in LD_LIBRARY_PATH. N and the symbol versions follow the toolkit whose headers are used, so that a
# program linked to the real libraries runs with these.
SIM        = $(BUILD)/sim
SIM_DIR    = tests/sim
SIM_CUDART = libcudart.so.$(if $(filter 11,$(CUDA_MAJOR)),11.0,$(CUDA_MAJOR))
SIM_NVRTC  = libnvrtc.so.$(if $(filter 11,$(CUDA_MAJOR)),11.2,$(CUDA_MAJOR))
SIM_LIBS   = $(SIM)/libcuda.so.1 $(SIM)/$(SIM_CUDART) $(SIM)/$(SIM_NVRTC)
# Without the sanitizers, whatever the tests are built with: kernels and copies touch protected memory.
SIM_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -pthread $(WARN) $(CPPFLAGS) -O2 -g -isystem $(CUDA_INC) \
             -Wa,-I$(SIM_DIR) -MMD -MP

SIM_CUDA_O   = $(patsubst %,$(SIM)/%.o,counts entry device fault memory alloc vmm ipc pointer context stream event copy \
               module block launch graph capture memop hostfunc)
SIM_CUDART_O = $(SIM)/cudart.o $(SIM)/cudart_memory.o
SIM_NVRTC_O  = $(SIM)/nvrtc.o $(SIM)/build.o $(SIM)/kept.o

sim: $(SIM_LIBS) $(SIM)/libaware.so

$(SIM)/libaware.so: $(SIM_DIR)/aware.c
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) $(LDFLAGS) -shared $< -o $@

$(SIM)/%.o: $(SIM_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) $(SIM_CFLAGS) -c $< -o $@
$(SIM)/build.o: $(SIM_DIR)/prelude.hpp

$(SIM)/libcuda.so.1: $(SIM_CUDA_O)
	@echo '{ global: cu*; simgpu_counts; simgpu_holds; simgpu_reset; local: *; };' > $(SIM)/cuda.map
	$(CC) $(LDFLAGS) -shared -pthread -o $@ $(SIM_CUDA_O) -Wl,-soname,libcuda.so.1,--version-script=$(SIM)/cuda.map -Wl,-z,defs -ldl
	ln -sf libcuda.so.1 $(SIM)/libcuda.so

$(SIM)/$(SIM_CUDART): $(SIM_CUDART_O) $(SIM)/libcuda.so.1
	@echo '$(SIM_CUDART) { global: cuda*; local: *; };' > $(SIM)/cudart.map
	$(CC) $(LDFLAGS) -shared -o $@ $(SIM_CUDART_O) $(SIM)/libcuda.so.1 -Wl,-soname,$(SIM_CUDART) \
	  -Wl,--version-script=$(SIM)/cudart.map -Wl,-z,defs -Wl,-rpath,'$$ORIGIN'
	ln -sf $(SIM_CUDART) $(SIM)/libcudart.so

$(SIM)/$(SIM_NVRTC): $(SIM_NVRTC_O)
	@echo '$(SIM_NVRTC) { global: nvrtc*; local: *; };' > $(SIM)/nvrtc.map
	$(CC) $(LDFLAGS) -shared -o $@ $(SIM_NVRTC_O) -Wl,-soname,$(SIM_NVRTC),--version-script=$(SIM)/nvrtc.map \
	  -Wl,-z,defs -ldl
	ln -sf $(SIM_NVRTC) $(SIM)/libnvrtc.so

# The test of the simulator itself, linked as a user's program would be.
$(SIM)/selftest: $(wildcard $(SIM_DIR)/selftest*.c $(SIM_DIR)/selftest.h) $(SIM_LIBS)
	$(CC) -std=c11 -D_GNU_SOURCE $(WARN) $(CPPFLAGS) -O2 -g $(LDFLAGS) $(SANFLAGS) -isystem $(CUDA_INC) \
	  -o $@ $(filter %.c,$^) $(SIM_LIBS) -lcmocka -ldl -pthread -Wl,-rpath,'$$ORIGIN'

check-sim: $(SIM)/selftest
	$(SIM)/selftest
	SIMGPU_EAGER=1 $(SIM)/selftest

.PHONY: sim check-sim
-include $(wildcard $(SIM)/*.d)
