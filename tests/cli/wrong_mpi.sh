#!/bin/sh
# wrong_mpi.sh BUILD MPICC OTHER_BUILD OTHER_MPICC: programs of either MPI under the library built for the other: one line
# on standard error says so, the program runs as without, and no call is taken or cut. $san: see tests/check.sh.
cd "$(dirname "$0")/../.." || exit 1
out=$(mktemp)
trap 'rm -f "$out" "$out.err" "$out.program"' EXIT
failed=0

open_mpi() { echo '#include <mpi.h>' | "$1" -E -dM -x c - | grep -c 'define OPEN_MPI '; }
[ "$(open_mpi "$2")" != "$(open_mpi "$4")" ] || { echo "ok left out: $2 and $4 are of one family"; exit 0; }

one() {   # LIBRARY_BUILD PROGRAM_BUILD PROGRAM_MPICC NAME
    for sim in "" --sim; do
        # shellcheck disable=SC2086
        MPICC=$3 BUILD=$2 timeout -k 5 60 tests/mpirun.sh -n 2 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} \
            "$1/stridec" run $sim -- "$2/examples/halo3d" --host 8 1 2 >"$out" 2>"$out.err"
        if [ $? -eq 0 ] && grep -q 'halo3d: verified' "$out" && grep -q '^halo3d: 2 ranks' "$out" &&
            [ "$(grep -c '^stridec\[0\]: error: built for .*: stridec steps aside' "$out.err")" = 1 ] &&
            [ "$(grep -c '^stridec' "$out.err")" = 1 ]; then
            echo "ok $4 $sim"
        else
            echo "not ok $4 $sim"
            failed=1
            sed 's/^/    /' "$out.err" | head
        fi
    done
}

one "$1" "$3" "$4" "the library for $2 under $4"
one "$3" "$1" "$2" "the library for $4 under $2"

# Handles of the other family keep all their bits.
handles() {   # LIBRARY_BUILD PROGRAM_MPICC NAME
    # shellcheck disable=SC2086
    "$2" -o "$out.program" tests/cli/wrong_mpi.c >"$out" 2>&1 &&
        MPICC=$2 timeout -k 5 60 tests/mpirun.sh -n 1 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} \
            "$1/stridec" run -- "$out.program" >"$out" 2>&1
    if [ $? = 7 ] && grep -q '^named column$' "$out" && ! grep -qi 'signal' "$out"; then
        echo "ok $3"
    else
        echo "not ok $3"
        failed=1
        sed 's/^/    /' "$out" | head
    fi
}
handles "$1" "$4" "handles of $4 under the library for $2"
handles "$3" "$2" "handles of $2 under the library for $4"

# An interpreter loads its MPI late: the library's own comes first, which can only be said. Debian's mpi4py is Open MPI's.
if [ "$(open_mpi "$2")" = 1 ]; then
    python=$(for p in /usr/bin/python3 python3; do "$p" -c 'import mpi4py' 2>/dev/null && echo "$p" && break; done)
    if [ -n "$python" ]; then
        MPICC=$2 BUILD=$1 timeout -k 5 60 tests/mpirun.sh -n 1 ${san:-} "$3/stridec" run -- "$python" -c \
            'from mpi4py import MPI' >"$out" 2>"$out.err"
        if [ "$(grep -c '^stridec\[0\]: error: built for MPICH, but the program has loaded libmpi.so.40' "$out.err")" = 1 ]; then
            echo "ok the library for $4 under Python on $2"
        else
            echo "not ok the library for $4 under Python on $2"
            failed=1
        fi
    fi
fi
exit $failed
