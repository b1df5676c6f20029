#!/bin/bash
# aware.sh BUILD [PROGRAM...]: runs programs of tests/mpi above a real CUDA-aware MPI on the simulated GPU. It is Open MPI
# 4.1, whose smcuda opens device memory of other processes through CUDA IPC, as stridec does.
# AWARE_MPI=PREFIX names such an MPI. Without it Debian's source package is built, once, into BUILD/aware-mpi. Where
# that can't be had, the script says so and succeeds.
build=${1:?usage: aware.sh BUILD [PROGRAM...]}
shift
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$build" && build=$(cd "$build" && pwd)
own=$build/aware to=$build/aware-mpi
cuda=${CUDA_HOME:-/usr/local/cuda}
# Left out: "starts" counts what is asked of the driver, and this MPI asks too. It breaks a capture ("capture"), and serves
# one context of a device ("reset").
[ $# -gt 0 ] || set -- mixed p2p pack mapped parts several synchronous unread uneven requests outstanding collectives \
    exchange exchange_later reductions reduced reduced_later \
    neighbors halo deferred pending window windows file bottom partitioned lifetimes freed \
    threads offers brief marks pipe strangers early soak \
    odd tools left callbacks query sessions errors failing probed short fatal devices handles edges large_count random

leave_out() { echo "ok CUDA-aware Open MPI: left out: $1"; exit 0; }

apt() {
    apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$to/sources" \
        -o Dir::State::lists="$to/lists" -o Dir::Cache="$to/cache" "$@"
}

# Fetches the package's own archive, of which apt has the checksum, by the sources of this machine.
fetch_source() {
    mkdir -p "$to/sources" "$to/lists/partial" "$to/cache/archives/partial" "$to/package" || return 1
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        case $list in
        *.list) sed -n 's/^deb /deb-src /p' "$list" ;;
        esac
    done >"$to/sources/all.list" 2>/dev/null
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -e "$list" ] && sed 's/^Types:.*/Types: deb-src/' "$list" >"$to/sources/${list##*/}"
    done
    apt update   # fails where one of many sources does
    cd "$to/package" && apt source --download-only openmpi
}

# Builds what the tests need. Generated files become the newest, so that make asks for no tool that generates them.
build_mpi() {
    tar -xf "$1" -C "$to" && cd "$to"/openmpi-*/ || return 1
    find . -name aclocal.m4 -exec touch {} +
    find . \( -name configure -o -name Makefile.in -o -name '*.h.in' -o -name '*.c' -path '*lex*' \) -exec touch {} +
    mkdir -p ours && cd ours || return 1
    ../configure -q --prefix="$to/prefix" --with-cuda="$cuda" CFLAGS=-O2 \
        --with-hwloc=internal --with-libevent=internal --with-pmix=internal \
        --disable-mpi-fortran --disable-oshmem --disable-mpi-java --disable-static \
        --without-verbs --without-ucx --without-ofi --without-psm2 --without-slurm \
        --enable-mca-no-build=btl-openib,btl-uct,pml-ucx,pml-cm,mtl,coll-fca,coll-hcoll,io-romio321,op-avx &&
        make -s -j"$(nproc)" && make -s install && touch "$to/built"
}

prefix=${AWARE_MPI:-$to/prefix}
if [ -n "${AWARE_MPI:-}" ]; then
    [ -x "$prefix/bin/mpicc" ] || { echo "not ok AWARE_MPI=$AWARE_MPI: no bin/mpicc there"; exit 1; }
elif [ ! -e "$to/built" ]; then
    command -v apt-get >/dev/null || leave_out "no apt-get for Debian's source package; set AWARE_MPI=PREFIX"
    [ -e "$cuda/include/cuda.h" ] || leave_out "no $cuda/include/cuda.h to build it with"
    mkdir -p "$to"
    archive=$(find "$to/package" -name 'openmpi_4.1.*.orig.tar.*' 2>/dev/null | head -1)
    if [ -z "$archive" ]; then
        (fetch_source) >"$to/fetch.log" 2>&1 || leave_out "apt-get source openmpi: $(grep -m1 '^E:' "$to/fetch.log")"
        archive=$(find "$to/package" -name 'openmpi_4.1.*.orig.tar.*' | head -1)
        [ -n "$archive" ] || leave_out "Debian's source package here is no Open MPI 4.1: $(ls "$to/package")"
    fi
    echo "# building Open MPI from $(basename "$archive") into $prefix: about 15 minutes on two cores"
    (build_mpi "$archive") >"$to/build.log" 2>&1
    [ -e "$to/built" ] ||
        { tail -5 "$to/build.log"; echo "not ok Open MPI does not build: $to/build.log"; exit 1; }
    rm -rf "$to"/openmpi-*/
fi
"$prefix/bin/ompi_info" --parsable --all 2>/dev/null |
    grep -q '^mca:opal:base:param:opal_built_with_cuda_support:value:true' ||
    leave_out "the Open MPI of $prefix was built without CUDA"

export MPICC=$prefix/bin/mpicc BUILD=$own
make -s -j"$(nproc)" MPICC="$MPICC" BUILD="$own" CUDA_HOME="$cuda" all sim mpi-tests >"$build/aware.log" 2>&1 ||
    { grep -m3 error "$build/aware.log"; echo "not ok stridec does not build against it: $build/aware.log"; exit 1; }
# Freed addresses come back at once, as a driver's do: then memory that is still open is met.
export SIMGPU_REUSE=1 MPI_TEST_AWARE=1 MPI_TEST_SECOND=1
failed=0

# The MPI alone: its device messages are right on the simulated GPU, and go through CUDA IPC.
alone() {   # RANKS
    local out=$build/aware-alone.$1
    LD_LIBRARY_PATH=$own/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} OMPI_MCA_mpi_common_cuda_verbose=20 \
        timeout -k 5 300 tests/mpirun.sh -n "$1" "$own/tests/mpi/mixed" >"$out" 2>&1
    if grep -q '^# [1-9][0-9]* passed, 0 failed' "$out" && grep -q 'CUDA: cuIpcOpenMemHandle passed' "$out"; then
        echo "ok mixed -n $1, the MPI alone, through CUDA IPC"
    else
        echo "not ok mixed -n $1, the MPI alone, through CUDA IPC"
        grep -v 'CUDA: ' "$out" | tail -20
        failed=1
    fi
}
# With stridec the bytes are right, too. Says how often each was refused memory, for what the other had open there.
beside() {   # RANKS
    local out=$build/aware-beside.$1
    STRIDEC_LOG=info timeout -k 5 300 tests/mpirun.sh -n "$1" "$own/stridec" run --sim -- "$own/tests/mpi/mixed" \
        >"$out" 2>&1
    if grep -q '^# [1-9][0-9]* passed, 0 failed' "$out"; then
        echo "ok mixed -n $1, with stridec"
    else
        echo "not ok mixed -n $1, with stridec"
        grep -v 'stridec\[' "$out" | tail -20
        failed=1
    fi
    echo "# of memory already mapped, stridec was refused $(grep -c 'resource already mapped' "$out"), the MPI" \
        "$(grep -c 'Failed to register remote memory' "$out")"
}
for ranks in 2 3; do alone $ranks; beside $ranks; done
tests/mpi/run.sh "$own" "$MPICC" "$@" || failed=1
exit $failed
