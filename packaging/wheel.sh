#!/bin/bash
# wheel.sh BUILD [FLAVOUR...]: `make wheel`: builds stridec for each MPI of tests/fetched.sh, in BUILD/FLAVOUR, installs
# all in BUILD/wheel and packs that: prints the wheel's name. An MPI that can't be fetched is left out with a line on
# standard error. Variables: CFLAGS, CUDA_HOME, KERNELS (the manifest of kernels that are made already); FETCHED: where
# the MPIs are kept.
set -e
build=${1:?usage: wheel.sh BUILD [FLAVOUR...]}
shift
[ $# -gt 0 ] || set -- openmpi-4 openmpi-5 mpich mpi-abi
cd "$(dirname "$0")/.."
mkdir -p "$build" && build=$(cd "$build" && pwd)
. tests/fetched.sh
FETCHED=$(mkdir -p "$FETCHED" && cd "$FETCHED" && pwd)
python=$(python_with pip) || { echo "make wheel: no Python with pip" >&2; exit 1; }
stage=$build/wheel
case "${MAKEFLAGS:-}" in *-j*) jobs=() ;; *) jobs=("-j$(nproc)") ;; esac

# build FLAVOUR GOAL...: a library finds its MPI where the environment says, else where pip puts it.
build() {
    local flavour=$1
    shift
    make -s "${jobs[@]}" CFLAGS="${CFLAGS--O2}" LDFLAGS="-s -Wl,-rpath,'\$\$ORIGIN/../..'" MPICC="$mpi_cc" \
        BUILD="$build/$flavour" ${CUDA_HOME:+CUDA_HOME="$CUDA_HOME"} ${KERNELS:+KERNELS="$KERNELS"} PREFIX="$stage" \
        DESTDIR= LINK=no "$@" >&2
}

rm -rf "$stage"
first=
for flavour; do
    if ! fetch_mpi "$python" "$flavour"; then
        echo "make wheel: $flavour is left out: $(tail -1 "$FETCHED/wheels/log")" >&2
        continue
    fi
    if [ -z "$first" ]; then build "$flavour" all sim install; else build "$flavour" install; fi
    first=${first:-$flavour}
    export KERNELS=${KERNELS:-$build/$first/kernels/manifest}   # alike for all
    # Kernels that serve all types, for the simulated GPU: a machine without a compiler runs these.
    kernels=$stage/lib/stridec/sim/kernels
    [ -d "$kernels" ] && continue
    mkdir "$kernels"
    echo 'return { type = vector(2, 1, 2, double) }' >"$build/type.lua"
    SIMGPU_KEEP=$kernels LD_LIBRARY_PATH=$stage/lib/stridec/sim:$mpi_home/lib \
        "$stage/lib/stridec/$flavour/stridec-mpi" gen "$build/type.lua" -o "$build/type" --arch sm_90 >&2
done
[ -n "$first" ] || { echo "make wheel: there is no MPI to build it for" >&2; exit 1; }
"$python" packaging/wheel.py "$stage" "$build"
