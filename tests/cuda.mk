# cuda.mk: finds CUDA's headers and libraries: CUDA_HOME, CUDA_INC, CUDA_LIB, CUDA_MAJOR.
# Looks at CUDA_HOME where that is given, else at the prefix of nvcc on PATH and /usr/local/cuda; then at
# $(BUILD)/cuda, where tests/deps.sh unpacks the wheels. With none, the variables name $(BUILD)/cuda, and
# goals that need a finished bootstrap stop with one line that says what to do.
# Without the folder of the sources where make would split it.
cuda_own  := $(if $(word 2,$(CURDIR)),$(BUILD),$(abspath $(BUILD)))/cuda
cuda_nvcc := $(shell readlink -f "$$(command -v nvcc 2>/dev/null)" 2>/dev/null)
cuda_try  := $(or $(CUDA_HOME),$(cuda_nvcc:/bin/nvcc=) /usr/local/cuda) $(cuda_own)
override CUDA_HOME := $(or $(firstword $(foreach p,$(cuda_try),$(if $(wildcard $(p)/include/cuda.h),$(p)))),$(cuda_own))
CUDA_INC   := $(CUDA_HOME)/include
cuda_so    := $(foreach d,lib64 lib targets/*/lib lib/*-linux-gnu,$(wildcard $(CUDA_HOME)/$(d)/libcudart.so*))
CUDA_LIB   := $(or $(patsubst %/,%,$(dir $(firstword $(cuda_so)))),$(CUDA_HOME)/lib)
CUDA_MAJOR := $(shell awk '$$2 == "CUDA_VERSION" { print int($$3 / 1000); exit }' $(CUDA_INC)/cuda.h 2>/dev/null)

# The check of what is installed, with what was given to make.
DEPS = MPICC='$(MPICC)' BUILD='$(BUILD)' CUDA_HOME='$(CUDA_HOME)' CC='$(CC)' LUA='$(LUA)' LUA_INC='$(LUA_INC)' \
       LUA_LIB='$(LUA_LIB)' tests/deps.sh

# The goals that install what is missing themselves, or need nothing.
cuda_free  := demo check deps clean check-gpu bench-run uninstall
ifneq ($(filter-out $(cuda_free),$(or $(MAKECMDGOALS),all)),)
cuda_hint  := $(shell $(DEPS) --missing build)
ifneq ($(cuda_hint),)
$(error $(cuda_hint))
endif
endif
