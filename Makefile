# stridec: make, make demo, make check, make check-quick, make model, make check-gpu, make bench, make install, make
# uninstall, make wheel, make clean. Variables: MPICC (default mpicc), BUILD (default build), PREFIX, DESTDIR and more
# folders (packaging/install.mk), SAN=1 (address and undefined sanitizers), SAN=thread, V=1 (say all), CUDA_HOME
# (default: found), LUA (default lua5.4), LUA_INC and LUA_LIB (its headers' folder and static archive), CC, CFLAGS,
# CPPFLAGS, LDFLAGS, WERROR=-Werror (as in make check: warnings are errors).

# $(call refuse,VARIABLES): no colons, which the loader's lists can't hold. Make's own can't hold spaces, either; the
# folder of the sources, and those that `make install` writes to (packaging/install.mk), may have spaces.
refuse  = $(foreach v,$(1),$(foreach c,: " & |,$(if $(findstring $c,$($v)),\
            $(error $v=$($v): stridec can't be built in or installed into a path with $c))))
LISTED  = BUILD CUDA_HOME LUA_INC LUA_LIB
$(foreach v,$(LISTED),$(if $(word 2,$($v)),$(error $v=$($v): stridec can't be built from or in a path with a space)))
$(call refuse,CURDIR $(LISTED))

MPICC   ?= mpicc
BUILD   ?= $(if $(SAN),$(if $(TSAN),build-tsan,build-san),build)
TSAN     = $(filter thread,$(SAN))
PREFIX  ?= /usr/local
CC      ?= gcc
LUA     ?= $(firstword $(shell command -v lua5.4 lua 2>/dev/null) lua5.4)
LUA_INC ?= /usr/include/lua5.4
LUA_LIB ?= $(firstword $(wildcard /usr/lib/*/liblua5.4.a /usr/lib/liblua5.4.a /usr/lib64/liblua5.4.a))
include tests/cuda.mk

CFLAGS  ?= -O2 -g
WARN     = -Wall -Wextra -Wpedantic -Wno-unknown-warning-option $(WERROR)
# GCC warns of fences, which ThreadSanitizer does not know: what they order is atomic.
CLANG    = $(shell $(CC) --version | grep -i clang)
SANFLAGS = $(if $(TSAN),-fsanitize=thread -fno-omit-frame-pointer $(if $(CLANG),,-Wno-tsan),\
             $(if $(SAN),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined))
comma    = ,
ALL      = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -pthread $(WARN) $(CPPFLAGS) $(CFLAGS) $(SANFLAGS) -MMD -MP \
           -iquote runtime -isystem $(CUDA_INC) -isystem $(LUA_INC)

GEN_O     = $(patsubst %.c,$(BUILD)/%.o,$(wildcard gen/*.c)) $(BUILD)/gen/embedded.o $(BUILD)/gen/gpu_rows.o $(BUILD)/liblua.a
SPEC_O    = $(patsubst %.c,$(BUILD)/%.o,$(wildcard spec/*.c))
START_O   = $(patsubst %,$(BUILD)/runtime/command/%.o,main options messages text run beside flavour needs \
            libraries capture programs elsewhere) $(BUILD)/runtime/base/file.o $(BUILD)/runtime/base/mpi_family.o \
            $(BUILD)/gen/nearest.o
COMMAND_C = $(wildcard runtime/command/*.c runtime/pages/*.c)
COMMAND_O = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/elsewhere.c,$(COMMAND_C))) $(BUILD)/runtime/pages.o
RUNTIME_O = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(COMMAND_C),$(wildcard runtime/*/*.c))) \
            $(BUILD)/runtime/stubs.o $(BUILD)/runtime/table.o
EMBED     = $(filter-out gen/embed.lua gen/gpu_rows.lua,$(wildcard gen/*.lua)) $(wildcard templates/*)
# What the modules of a cache depend on beside these: the order of numbers and lists that kernels read.
HASHED    = $(wildcard gen/form*.[ch] gen/gen*.[ch])

# The kernels that serve all types, for the usual GPUs: a program's first messages need not wait until NVRTC has made
# them. Without NVRTC here there are none. Builds within this one (BUILD=build/mpich) use its kernels.
KERNELS = $(or $(if $(wildcard $(BUILD)/../stridec-mpi),$(wildcard $(BUILD)/../kernels/manifest)),\
            $(BUILD)/kernels/manifest)

all: $(BUILD)/libstridec.so $(BUILD)/stridec $(BUILD)/help/done $(if $(SAN),,$(KERNELS))

$(BUILD)/libstridec.so: $(RUNTIME_O) $(GEN_O) runtime/interpose/libstridec.map
	$(MPICC) -shared -Wl,-soname,libstridec.so.0 $(LDFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o %.a,$^) \
	  -Wl,--version-script=runtime/interpose/libstridec.map -Wl,--exclude-libs,ALL -Wl,-z,defs -ldl -lm

# The command: what starts programs, and the rest, which holds the runtime too, so that tune and doctor see what a program would.
$(BUILD)/stridec: $(START_O) | $(BUILD)/stridec-mpi
	$(CC) $(LDFLAGS) $(SANFLAGS) -o $@ $^
$(BUILD)/stridec-mpi: $(COMMAND_O) $(SPEC_O) $(RUNTIME_O) $(GEN_O)
	$(MPICC) $(LDFLAGS) $(SANFLAGS) -pthread -o $@ $^ -ldl -lm

$(BUILD)/kernels/manifest: $(BUILD)/gen/embedded.c | $(BUILD)/stridec
	@mkdir -p $(@D)
	LD_LIBRARY_PATH=$(CUDA_LIB)$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH} $(BUILD)/stridec gen --common -o $(@D) \
	  > $(@D)/log 2>&1 || { echo "make: no kernels are made ahead of time: $$(tail -1 $(@D)/log)"; : > $@; }

# Lua's static archive is not built for shared objects: its only obstacle is the address of the three
# standard streams, which gen/lua_streams.c provides under other names.
$(BUILD)/liblua.a: $(LUA_LIB)
	@mkdir -p $(@D)
	objcopy $(foreach s,stdin stdout stderr,--redefine-sym $s=stridec_lua_$s) $< $@

$(BUILD)/gen/embedded.c: gen/embed.lua $(EMBED) $(HASHED)
	@mkdir -p $(@D)
	$(LUA) gen/embed.lua $@ $(EMBED) -- $(HASHED)
# What the command draws: apart from what generates kernels, so that the modules of a cache outlive a change of colours.
PAGES = $(wildcard runtime/pages/*.lua runtime/pages/*.css)
$(BUILD)/runtime/pages.c: gen/embed.lua $(PAGES)
	@mkdir -p $(@D)
	$(LUA) gen/embed.lua $@ $(PAGES)
$(BUILD)/gen/gpu_rows.c: gen/gpu_rows.lua gen/gpus.lua
	@mkdir -p $(@D)
	$(LUA) gen/gpu_rows.lua $@
# The names that the MPI's headers declare: of MPIX ones those of persistent collectives count (Open MPI 4.1).
$(BUILD)/runtime/declared: $(MAKEFILE_LIST)
	@mkdir -p $(@D)
	printf '#include <mpi.h>\n#if defined OPEN_MPI && __has_include(<mpi-ext.h>)\n#include <mpi-ext.h>\n#endif\n' > $@.c
	$(MPICC) $(CPPFLAGS) -E $@.c | grep -oE '\bMPIX?_[A-Za-z_0-9]+ *\(' | tr -d ' (' | sort -u > $@
$(BUILD)/runtime/next.h $(BUILD)/runtime/stubs.c: runtime/interpose/stubs.lua runtime/interpose/observed.lua
$(BUILD)/runtime/table.c: runtime/interpose/call_table.lua
$(BUILD)/runtime/next.h $(BUILD)/runtime/stubs.c $(BUILD)/runtime/table.c: \
    $(addprefix runtime/interpose/,functions.lua calls.lua) $(BUILD)/runtime/declared
	$(LUA) $(filter %/stubs.lua %/call_table.lua,$^) runtime/interpose/calls.lua $(BUILD)/runtime/declared $(@F) > $@

# A message reads some fifteen thread-local variables: without calls, like a library that is there from the program's
# start. One that is opened later needs 256 bytes of what the C library keeps for that.
TLS = -ftls-model=initial-exec
# GCC clears structures of 128 bytes and more by `rep stos`: 30 cycles, where stores take 8. A message clears seven.
CLEAR  = -mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign
STORES := $(shell $(MPICC) $(CLEAR) -E -x c /dev/null >/dev/null 2>&1 && echo '$(CLEAR)')
$(BUILD)/runtime/%.o: runtime/%.c | $(BUILD)/runtime/next.h
	@mkdir -p $(@D)
	$(MPICC) $(ALL) $(TLS) $(STORES) $(DEFINES) -I$(BUILD)/runtime -c $< -o $@
# Stubs jump, so that what they jump to sees who has called (runtime/interpose/caller.c). ThreadSanitizer would see them return.
$(BUILD)/runtime/stubs.o: JUMPS = -O2 $(if $(TSAN),$(if $(CLANG),-mllvm -tsan-instrument-func-entry-exit=0,\
                                     --param tsan-instrument-func-entry-exit=0))
$(BUILD)/runtime/stubs.o $(BUILD)/runtime/table.o: $(BUILD)/runtime/%.o: $(BUILD)/runtime/%.c $(BUILD)/runtime/next.h
	$(MPICC) $(ALL) $(TLS) $(JUMPS) -c $< -o $@
$(BUILD)/runtime/command/main.o $(BUILD)/runtime/observe/stats_job.o: VERSION
$(BUILD)/runtime/command/main.o $(BUILD)/runtime/observe/stats_job.o: DEFINES = -DSTRIDEC_VERSION='"$(RELEASE)"'
$(COMMAND_C:%.c=$(BUILD)/%.o): $(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL) $(DEFINES) -c $< -o $@
$(BUILD)/gen/embedded.o $(BUILD)/gen/gpu_rows.o $(BUILD)/runtime/pages.o: %.o: %.c
	$(CC) $(ALL) -Igen -c $< -o $@
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL) $(DEFINES) -c $< -o $@

clean:
	rm -rf $(BUILD)

include tests/tests.mk
include packaging/install.mk

.PHONY: all clean
.DELETE_ON_ERROR:
$(if $V,,.SILENT:)
-include $(shell find $(BUILD) -name fetched -prune -o -name '*.d' -print 2>/dev/null)
include packaging/wheel.mk
