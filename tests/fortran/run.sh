#!/bin/sh
# run.sh BUILD: the calls of tests/fortran/calls.F90 through mpif.h, `use mpi` and `use mpi_f08`, on the MPI of $MPICC,
# with stridec; and without it, where the test must see every call slip past: it is no test if it does not.
build=$(cd "${1:?usage: run.sh BUILD}" && pwd)
cd "$(dirname "$0")/../.." || exit 1
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# What goes zero-copy launches nothing at its sender: all is packed.
export SIMGPU_OPEN=1 SIMGPU_EAGER=1 STRIDEC_TRANSPORT=oneshot
failed=0
preload=${san:+$(gcc -print-file-name=libasan.so):}$build/sim/libaware.so

result() {   # NAME, after a command
    if [ $? -eq 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; grep -E '^(not ok|stridec)' "$out" | sed 's/^/    /' | head -20; fi
}

for interface in F08 MPI MPIF_H; do
    program=$build/tests/fortran/calls_$interface
    timeout -k 5 120 tests/mpirun.sh -n 2 env LD_PRELOAD="$preload" ${san:+ASAN_OPTIONS=detect_leaks=0} \
        "$build/stridec" run --sim -- "$program" >"$out" 2>&1 && grep -q '^# [1-9][0-9]* passed, 0 failed' "$out"
    result "$interface: each call brings its bytes and is taken"
done
timeout -k 5 120 tests/mpirun.sh -n 2 env LD_PRELOAD="$preload" ${san:+ASAN_OPTIONS=detect_leaks=0} \
    LD_LIBRARY_PATH="$build/sim" "$build/tests/fortran/calls_F08" >"$out" 2>&1
grep -q 'MPI_Send on vector: slipped past' "$out" && grep -q 'MPI_Recv_bottom on MPI_BOTTOM: slipped past' "$out" &&
    grep -q 'MPI_Bcast on vector: slipped past' "$out" && grep -q 'MPI_Ibcast on vector: slipped past' "$out" &&
    ! grep -q 'wrong bytes' "$out"
result "without stridec each slips past"
exit $failed
