#!/bin/bash
# check.sh BUILD MPICH_BUILD: runs every test that needs no GPU; `make check` builds them first. Each test program
# prints a line `ok ...` or `not ok ...` for each check; the last line here adds them up. Logs: BUILD/log.
cd "$(dirname "$0")/.." || exit 1
build=$1 mpich=$2
log=$build/log
passed=0 failed=0
rm -rf "$log"
mkdir -p "$log"
export CMOCKA_MESSAGE_OUTPUT=TAP
# Nothing of the user's own stridec may steer the tests.
for name in $(env | sed -n 's/^\(STRIDEC_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export XDG_CONFIG_HOME=$PWD/$log/config XDG_CACHE_HOME=$PWD/$log/cache
python=$(for p in /usr/bin/python3 python3; do "$p" -c 'import mpi4py' 2>/dev/null && echo "$p" && break; done)

# run NAME COMMAND...: one program; its lines are counted. A program that fails without a line, hangs, or checks
# nothing is a failure of its own.
run() {
    local name=$1 file ok bad rc start=$SECONDS
    shift
    file=$log/${name//[^A-Za-z0-9_.-]/_}
    timeout -k 5 "${LIMIT:-120}" "$@" >"$file" 2>&1 </dev/null
    rc=$?
    ok=$(grep -c '^ok ' "$file") bad=$(grep -c '^not ok ' "$file")
    [ $rc -eq 124 ] || [ $rc -eq 137 ] && echo "not ok $name ran past ${LIMIT:-120} s" >>"$file"
    [ $((ok + bad)) -eq 0 ] && echo "not ok $name checked nothing (exit status $rc)" >>"$file"
    [ $rc -ne 0 ] && [ "$bad" -eq 0 ] && echo "not ok $name: exit status $rc" >>"$file"
    bad=$(grep -c '^not ok ' "$file")
    passed=$((passed + ok)) failed=$((failed + bad))
    printf '%-52s %4d passed, %d failed  %ds\n' "$name" "$ok" "$bad" $((SECONDS - start))
    [ "$bad" -eq 0 ] || { grep -A2 '^not ok ' "$file" | head -20; [ "$ok$bad" != 01 ] || tail -20 "$file"; }
}

# yes NAME COMMAND...: a command whose success is the check.
yes() {
    local name=$1
    shift
    run "$name" sh -c '"$@" && echo "ok $0" || { echo "not ok $0"; exit 1; }' "$name" "$@"
}

san=
if [ -n "${SAN:-}" ]; then
    # Programs are not instrumented, the library is: its runtime must come first. MPIs leak; unit tests don't.
    san="env LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0"
fi

for t in "$build"/tests/unit/test_*; do
    case $t in *.o | *.d) continue ;; esac
    n=$(basename "$t") path=$CUDA_LIB
    [ "$n" = test_kernel ] && path=$PWD/$build/sim
    LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} OMPI_MCA_plm_rsh_agent=/bin/false run "unit $n" "$t"
done
run "simulated GPU" "$build/sim/selftest"
SIMGPU_EAGER=1 run "simulated GPU, eager" "$build/sim/selftest"
run "Lua" busted --lua=lua5.4 --lpath='gen/?.lua' -o TAP tests/lua
run "command" tests/cli/cli.sh "$build/stridec"

for b in "$build" "$mpich"; do
    if [ "$b" = "$mpich" ]; then mpi=MPICH MPICC=mpicc.mpich; else mpi=$MPICC; fi
    export MPICC BUILD=$b
    mpirun() { echo tests/mpirun.sh "$@"; }
    LIMIT=600 run "$mpi programs" tests/mpi/run.sh "$b"
    for n in 1 2 4 8; do
        yes "$mpi halo3d, $n ranks" tests/mpirun.sh -n $n $san "$b/stridec" run --sim -- "$b/examples/halo3d" 16 2 3
    done
    yes "$mpi halo3d in Fortran" tests/mpirun.sh -n 4 $san "$b/stridec" run --sim -- "$b/examples/halo3d_f"
    if [ "$b" = "$build" ]; then
        yes "$mpi halo3d in Python" tests/mpirun.sh -n 2 $san "$b/stridec" run --sim -- "$python" examples/halo3d.py 16 2 3
    fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
