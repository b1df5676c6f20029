#!/bin/sh
# gpu.sh: `tests/gpu.sh [BUILD_DIR]` (make check-gpu): what only a machine with a GPU can show. Runs from a built
# tree, compiles nothing: doctor, the examples in C, Fortran and Python, the benchmarks' byte checks, the
# multi-rank tests of tests/mpi, and a run under compute-sanitizer. Prints "N passed, N failed" last.
# tests/mpi/NAME.args, where there is one, holds a line "RANKS [args]" for each run of NAME; else it runs with 2.
# Variables: MPICC, CUDA_LIB, PYTHON, LOGS (a folder for the output of each run; default a temporary one).
cd "$(dirname "$0")/.." || exit 1
BUILD=${1:-${BUILD:-build}}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
LOGS=${LOGS:-$scratch/logs}
mkdir -p "$LOGS"
# Compiled kernels go where no earlier run left any, so that compiling is part of what is checked.
export BUILD PYTHONDONTWRITEBYTECODE=1 STRIDEC_CACHE_DIR="$scratch/cache"
stridec=$BUILD/stridec
passed=0 failed=0

if [ "$("$BUILD/tests/gpu_count" 2>/dev/null || echo 0)" -eq 0 ]; then
    echo "check-gpu: no GPU found: nothing was checked"
    echo "0 passed, 0 failed"
    exit 1
fi

# try NAME COMMAND...: one check; its output is shown where it fails.
try() {
    name=$1
    shift
    log=$LOGS/$(echo "$name" | tr -c 'A-Za-z0-9.\n' '-').log
    if timeout "${LIMIT:-300}" "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "ok $name: $(grep -E 'median|exchange: min|device memory|layouts verified' "$log" | sed 's/^[a-z0-9_.]*: //' | paste -sd ';' -)"
    else
        status=$?
        failed=$((failed + 1))
        echo "not ok $name (exit status $status):"
        tail -30 "$log" | sed 's/^/    /'
    fi
}

# under_stridec RANKS NAME PROGRAM ARGS...
under_stridec() {
    ranks=$1 label=$2
    shift 2
    try "$label" tests/mpirun.sh -n "$ranks" "$stridec" run -- "$@"
}

skip() {
    echo "skipped $1"
}

try doctor "$stridec" doctor

for ranks in 1 2 4; do
    for n in 64 128; do
        under_stridec "$ranks" "halo3d $n^3, $ranks ranks" "$BUILD/examples/halo3d" $n 2 5
    done
done
for transport in oneshot staged; do
    export STRIDEC_TRANSPORT=$transport
    under_stridec 2 "halo3d 64^3, 2 ranks, $transport" "$BUILD/examples/halo3d" 64 2 5
    [ ! -x "$BUILD/bench/pingpong" ] ||
        under_stridec 2 "bytes sent and received, $transport" "$BUILD/bench/pingpong" --check --span 300000000
    unset STRIDEC_TRANSPORT
done
[ ! -x "$BUILD/bench/pack" ] || under_stridec 1 "bytes packed and unpacked" "$BUILD/bench/pack" --check --span 1200000000

if [ -x "$BUILD/examples/halo3d_f" ]; then
    under_stridec 2 "halo3d_f 64^3, 2 ranks" "$BUILD/examples/halo3d_f" 64 2 5
else
    skip "halo3d_f: not built"
fi
for p in $PYTHON python3 /usr/bin/python3; do
    "$p" -c 'import mpi4py, numpy' 2>/dev/null && python=$p && break
done
if [ -n "${python:-}" ]; then
    under_stridec 2 "halo3d.py 64^3, 2 ranks" "$python" examples/halo3d.py 64 2 5
else
    skip "halo3d.py: no python3 with mpi4py and numpy"
fi

for program in "$BUILD"/tests/mpi/*; do
    { [ -f "$program" ] && [ -x "$program" ]; } || continue
    name=${program##*/}
    runs=$scratch/runs
    if [ -f "tests/mpi/$name.args" ]; then cp "tests/mpi/$name.args" "$runs"; else echo 2 >"$runs"; fi
    while read -r ranks arguments <&3; do
        # shellcheck disable=SC2086
        [ -z "$ranks" ] || under_stridec "$ranks" "tests/mpi/$name $ranks $arguments" "$program" $arguments
    done 3<"$runs"
done

sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)
if [ -z "$sanitizer" ]; then
    skip "memcheck: no compute-sanitizer"
elif "$sanitizer" "$BUILD/examples/halo3d" 8 1 1 2>&1 | grep -q "Device not supported"; then
    skip "memcheck: compute-sanitizer does not support this machine"
else
    try "memcheck: halo3d 16^3, 2 ranks" tests/mpirun.sh -n 2 "$sanitizer" --tool memcheck --target-processes all \
        --error-exitcode 9 --report-api-errors no "$stridec" run -- "$BUILD/examples/halo3d" 16 2 3
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
