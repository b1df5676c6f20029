#!/bin/bash
# check.sh BUILD MPICH_BUILD: runs every test that needs no GPU; `make check` builds them first. Each test program
# prints a line `ok ...` or `not ok ...` for each check; the last line here adds them up. Logs: BUILD/log.
#
# What one MPI, NVRTC or release shows for all is run above one of them in turn: TEST_TURN is a number, by default the day's;
# TEST_TURN=all runs all.
cd "$(dirname "$0")/.." || exit 1
build=$1 mpich=$2
log=$build/log
passed=0 failed=0
rm -rf "$log"
mkdir -p "$log"
export CMOCKA_MESSAGE_OUTPUT=TAP
umask 022   # tables and folders that the user's group may write to are not used
# Programs of tests/mpi that have threads, or stridec's own: it compiles, or looks after refused offers.
THREADED="threads monitors watched outstanding pending lifetimes callbacks deferred probed self shared devices tuned host native
    attach soak stream_order stream_waits reads"
# Nothing of the user's own stridec may steer the tests.
for name in $(env | sed -n 's/^\(STRIDEC_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export XDG_CONFIG_HOME=$PWD/$log/config XDG_CACHE_HOME=$PWD/$log/cache
export TEST_TURN=${TEST_TURN:-$(($(date +%s) / 86400))}
# What the simulated compiler has made once serves all programs.
export SIMGPU_KEEP=$PWD/$log/kernels
mkdir -p "$SIMGPU_KEEP"

# execute NAME COMMAND...: one program, its output, exit status and time to files. tell NAME: its lines are counted. A program
# that fails without a line, hangs, or checks nothing is a failure of its own. run NAME COMMAND...: both.
file_of() { echo "$log/${1//[^A-Za-z0-9_.-]/_}"; }

execute() {
    local file start=$SECONDS
    file=$(file_of "$1")
    shift
    timeout -k 5 "${LIMIT:-300}" "$@" >"$file" 2>&1 </dev/null
    echo "$? $((SECONDS - start))" >"$file.rc"
}

tell() {
    local name=$1 file ok bad rc seconds
    file=$(file_of "$name")
    read -r rc seconds <"$file.rc"
    ok=$(grep -c '^ok ' "$file") bad=$(grep '^not ok ' "$file" | grep -vc '# SKIP')
    [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ] && echo "not ok $name ran past ${LIMIT:-300} s" >>"$file"
    [ $((ok + bad)) -eq 0 ] && echo "not ok $name checked nothing (exit status $rc)" >>"$file"
    [ "$rc" -ne 0 ] && [ "$bad" -eq 0 ] && echo "not ok $name: exit status $rc" >>"$file"
    bad=$(grep '^not ok ' "$file" | grep -vc '# SKIP')
    passed=$((passed + ok)) failed=$((failed + bad))
    printf '%-52s %4d passed, %d failed  %ds\n' "$name" "$ok" "$bad" "$seconds"
    grep -E '^NO [A-Z]+ ' "$file" | sed 's/^/    /'   # what is left out, and why
    [ "$bad" -eq 0 ] || { grep -A2 '^not ok ' "$file" | head -20; [ "$ok$bad" != 01 ] || tail -20 "$file"; }
}

run() {
    execute "$@"
    tell "$1"
}

# beside NAME COMMAND...: beside others, one on each core. tell_all: when all have ended.
besides=()
beside() {
    execute "$@" &
    besides+=("$1")
    [ "$(jobs -pr | wc -l)" -lt "$(nproc)" ] || wait -n
}

tell_all() {
    local name
    wait
    for name in "${besides[@]}"; do tell "$name"; done
    besides=()
}

# its_turn I N: whether the turn is that of the I-th of N, from 0.
its_turn() { [ "$TEST_TURN" = all ] || [ $((TEST_TURN % $2)) -eq "$1" ]; }

# yes NAME COMMAND...: a command whose success is the check.
yes() {
    local name=$1
    shift
    run "$name" sh -c '"$@" && echo "ok $0" || { echo "not ok $0"; exit 1; }' "$name" "$@"
}

# ThreadSanitizer: what uses threads. Each program says itself which reports are stridec's (tests/races.sh).
if [ "${SAN:-}" = thread ]; then
    export SAN
    fixed=$(setarch -R true 2>/dev/null && echo "setarch -R")   # it needs addresses that are not random
    for n in host launch cache attach; do
        TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp exitcode=0 history_size=7 symbolize=0 stack_trace_format='    #%n (%m+%o)' \
log_path=$PWD/$log/race" OMPI_MCA_plm_rsh_agent=/bin/false \
            LD_LIBRARY_PATH=$PWD/$build/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} run "unit $n" $fixed "$build/tests/unit/test_$n"
        run "unit $n, races" sh -c '! tests/races.sh "$0".* && echo "ok races"' "$PWD/$log/race"
    done
    for b in "$build" "$mpich"; do
        if [ "$b" = "$mpich" ]; then mpi=MPICH MPICC=mpicc.mpich MPI_TEST_SECOND=1; else mpi=$MPICC MPI_TEST_SECOND=; fi
        export MPICC BUILD=$b MPI_TEST_SECOND
        # shellcheck disable=SC2086
        LIMIT=1800 run "$mpi programs" tests/mpi/run.sh "$b" "$MPICC" $THREADED
    done
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
fi

export san=
if [ -n "${SAN:-}" ]; then
    # The library is instrumented, the programs are not: the sanitizer's runtime must come first.
    export SAN LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
    export ASAN_OPTIONS=use_sigaltstack=0
    san="env LD_PRELOAD=$(gcc -print-file-name=libasan.so)"
fi
# MPIs are built without frame pointers: only the slow unwinder sees whose an allocation is.
slow=fast_unwind_on_malloc=0

# units [LEFT_OUT...]: the programs of one process, one on each core; the longest first.
units() {
    local t n path unwind
    for t in "$build"/tests/unit/test_{nvrtc,hip,native,spec,gen,link,knobs,kernel} "$build"/tests/unit/test_*; do
        case $t in *.o | *.d) continue ;; esac
        n=$(basename "$t") path=$CUDA_LIB unwind=
        case " ${besides[*]} " in *" unit $n "*) continue ;; esac
        case " $* " in *" $n "*) continue ;; esac
        case $n in test_buffer | test_gpus | test_host | test_kernel | test_knobs | test_launch | test_link | test_shadow | test_tune | test_where) path=$PWD/$build/sim ;; esac
        case $n in test_host | test_type_mpi | test_shadow | test_where | test_fuzz | test_wire | test_old) unwind=$slow ;; esac
        ASAN_OPTIONS=${ASAN_OPTIONS:-}:$unwind OMPI_MCA_plm_rsh_agent=/bin/false \
            LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} beside "unit $n" "$t"
    done
}

# sources: what runs no program of stridec's.
sources() {
    beside "structure of runtime/" lua5.4 tests/structure.lua "$build"
    beside "pages" lua5.4 tests/docs.lua "$build"
    beside "Lua" busted --lua=lua5.4 --lpath='gen/?.lua' -o TAP tests/lua
    [ -n "$san" ] || beside "models of a message" tests/model/run.sh
}

echo "turn $TEST_TURN (TEST_TURN=$TEST_TURN repeats it, TEST_TURN=all runs all turns)"
# make check-quick: structure, models, most units, and one pass of the protocols on one MPI.
if [ -n "${QUICK:-}" ]; then
    units test_nvrtc test_native
    sources
    tell_all
    BUILD=$build run "protocols" tests/mpi/run.sh "$build" "$MPICC" p2p owner offers attach pipe starts neighbors
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
fi

units
LD_LIBRARY_PATH=$PWD/$build/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} SIMGPU_EAGER=1 STRIDEC_SM_LIMIT=2 \
    beside "unit test_kernel, two multiprocessors" "$build/tests/unit/test_kernel"
LD_LIBRARY_PATH=$PWD/$build/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} SIMGPU_CARD=T4 \
    beside "unit test_kernel, T4" "$build/tests/unit/test_kernel"
beside "command" tests/cli/cli.sh "$build/stridec"
beside "builds for several MPIs" tests/cli/flavour.sh "$build/stridec"
beside "build" tests/cli/build.sh
[ -n "$san" ] || beside "install" tests/cli/install.sh "$build" "$MPICC" "$mpich" mpicc.mpich
[ -n "$san" ] || beside "Debian packages" tests/cli/deb.sh "$build" "$mpich"
[ -n "$san" ] || beside "NVRTCs of the Python index" tests/nvrtcs.sh "$build"
beside "simulated GPU" "$build/sim/selftest"
SIMGPU_EAGER=1 beside "simulated GPU, eager" "$build/sim/selftest"
sources
tell_all

export ASAN_OPTIONS=${ASAN_OPTIONS:-}:$slow
first=$MPICC
for b in "$build" "$mpich"; do
    if [ "$b" = "$mpich" ]; then mpi=MPICH MPICC=mpicc.mpich MPI_TEST_SECOND=1; else mpi=$MPICC MPI_TEST_SECOND=; fi
    export MPICC BUILD=$b MPI_TEST_SECOND
    if [ "$b" = "$build" ]; then beside_it=$mpich; else beside_it=$build; fi
    run "$mpi calls" lua5.4 tests/cli/calls.lua "$b/stridec" "$MPICC"
    # Some packages (Ubuntu 24.04's MPICH 4.2.0) start every rank alone: no fault of what is tested here.
    if tests/mpirun.sh -n 2 "$b/examples/halo3d" --host 8 1 1 2>&1 | grep -q '^halo3d: 1 rank'; then
        echo "$mpi: left out: its mpirun starts each rank as a job of its own"
        continue
    fi
    LIMIT=$([ -n "$SAN" ] && echo 6900 || echo 1500) run "$mpi programs" tests/mpi/run.sh "$b"
    RANKS=2 PROGRAMS=40 EACH=40 TEST_SEED=1 LIMIT=300 run "$mpi random programs, the same ones" tests/programs/programs.sh "$b"
    RANKS='2 2 3' PROGRAMS=200 EACH=50 LIMIT=600 run "$mpi random programs" tests/programs/programs.sh "$b"
    for n in 1 2 4 8; do
        yes "$mpi halo3d, $n ranks" tests/mpirun.sh -n $n $san "$b/stridec" run --sim -- "$b/examples/halo3d" 16 2 3
    done
    run "$mpi examples" tests/examples.sh "$b"
    run "$mpi calls from Fortran" tests/fortran/run.sh "$b"
    [ -n "$san" ] || LIMIT=900 beside "$mpi under valgrind" tests/valgrind.sh "$b" ${MPI_TEST_SECOND:+sessions}
    if [ -z "$san" ] && its_turn "$([ "$b" = "$build" ] && echo 0 || echo 1)" 2; then
        LIMIT=900 FETCHED=$PWD/$build/fetched beside "$mpi mpi4py's tests" tests/mpi4py.sh "$b"
    fi
    FETCHED=$PWD/$build/fetched beside "$mpi stridec.datatype in Python" tests/python/run.sh "$b"
    beside "$mpi doctor" tests/cli/doctor.sh "$b" "$beside_it"
    if [ "$b" = "$build" ]; then
        beside "ahead of time" tests/cli/aot.sh "$b"
        beside "README" tests/cli/readme.sh "$b"
        beside "another user" tests/cli/trust.sh "$b"
        beside "reports and pictures" tests/cli/report.sh "$b"
        beside "around the examples" tests/examples.sh "$b" --around
    fi
    tell_all
    for halo in 1 3; do
        yes "$mpi pencils in Fortran, halo of $halo" tests/mpirun.sh -n 4 $san ${san:+ASAN_OPTIONS=detect_leaks=0} \
            "$b/stridec" run --sim -- "$b/examples/pencils" 19 $halo 3
    done
    if [ "$b" = "$build" ]; then
        [ -n "$san" ] || FAILURES="zerocopy driver" run "failures from start to end" tests/failures.sh "$b" 3
        run "nothing to do" tests/cli/light.sh "$b"
        run "statistics" tests/cli/stats.sh "$b"
        run "timeline" tests/cli/trace.sh "$b"
    else
        run "$mpi statistics" tests/cli/stats.sh "$b"
        run "library of the other MPI" tests/cli/wrong_mpi.sh "$build" "$first" "$mpich" "$MPICC"
    fi
done
# The wheel packs what the test of these MPIs has built.
wheels() {
    LIMIT=900 execute "MPIs of the Python index" tests/wheels.sh "$build"
    LIMIT=600 execute "wheel" tests/cli/wheel.sh "$build"
}
if [ -z "$san" ]; then
    wheels &
    besides+=("MPIs of the Python index" "wheel")
fi
MPICC=$first BUILD=$build MPI_TEST_SECOND='' beside "benchmarks" tests/cli/bench.sh "$build"
MPICC=$first BUILD=$build MPI_TEST_SECOND='' beside "benchmarks that others wrote" tests/cli/others.sh "$build"
tell_all

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
