#!/bin/sh
# gpu.sh: `tests/gpu.sh [BUILD_DIR [PART...]]` (make check-gpu): what only a machine with a GPU can show. Runs from a
# built tree, compiles nothing. The parts, all of them but the last two by default:
#   doctor      what `stridec doctor` finds
#   examples    the halo exchanges in C, Fortran and Python, and by each transport
#   bytes       the benchmarks' byte checks
#   mpi         the multi-rank tests of tests/mpi; or mpi/NAME for one of them
#   sanitizer   compute-sanitizer's memcheck, racecheck and initcheck; or sanitizer/TOOL for one of them
#   soak        a million random messages of up to 64 MiB on 2, 4 and 8 ranks, in jobs of 16000, some at a time; some
#               minutes on two H200s
#   programs    5,000 random MPI programs (tests/programs), some jobs at a time
# Prints "N passed, N failed" last. tests/mpi/NAME.args, where there is one, holds a line "RANKS [args]" for each run of
# NAME; else it runs with 2.
# Variables: MPICC, CUDA_LIB, PYTHON, TEST_SEED, LOGS (a folder for the output of each run; default a temporary one),
# LIMIT (seconds for one run, 300; 3600 for a job of the soak), SOAK (messages), JOBS (at a time, 9), THREADS (of a rank in
# some jobs of the soak, 2; 1 for an MPI that does not stand threads).
cd "$(dirname "$0")/.." || exit 1
BUILD=${1:-${BUILD:-build}}
[ $# -eq 0 ] || shift
parts=${*:-doctor examples bytes mpi sanitizer}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
LOGS=${LOGS:-$scratch/logs}
mkdir -p "$LOGS"
# Compiled kernels go where no earlier run left any, so that compiling is part of what is checked.
export BUILD PYTHONDONTWRITEBYTECODE=1 STRIDEC_CACHE_DIR="$scratch/cache"
export OMPI_MCA_osc="${OMPI_MCA_osc:-pt2pt,sm}"   # Open MPI 4.1 has no other for windows among ranks of a machine without a network
stridec=$BUILD/stridec
passed=0 failed=0 limit=${LIMIT:-300}
# Lines worth showing of a run that went well.
telling='# programs:|left out:|: verified$|median|exchange: min|device memory|layouts verified|kernels in|blocks: commit'
telling="$telling|were compiled"

if [ "$("$BUILD/tests/gpu_count" 2>/dev/null || echo 0)" -eq 0 ]; then
    echo "check-gpu: no GPU found: nothing was checked"
    echo "0 passed, 0 failed"
    exit 1
fi

# try NAME COMMAND...: one check; its output is shown where it fails.
try() {
    what=$1
    shift
    log=$LOGS/$(echo "$what" | tr -c 'A-Za-z0-9.\n' '-').log
    if timeout "$limit" "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "ok $what: $(grep -E "$telling" "$log" | sed 's/^[a-z0-9_.]*: //' | paste -sd ';' -)"
    else
        status=$?
        failed=$((failed + 1))
        echo "not ok $what (exit status $status):"
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

try_examples() {
    for ranks in 1 2 4; do
        for n in 64 128; do
            under_stridec "$ranks" "halo3d $n^3, $ranks ranks" "$BUILD/examples/halo3d" $n 2 5
        done
    done
    for transport in oneshot staged; do
        export STRIDEC_TRANSPORT=$transport
        under_stridec 2 "halo3d 64^3, 2 ranks, $transport" "$BUILD/examples/halo3d" 64 2 5
        unset STRIDEC_TRANSPORT
    done
    if [ -x "$BUILD/examples/halo3d_f" ]; then
        under_stridec 2 "halo3d_f 64^3, 2 ranks" "$BUILD/examples/halo3d_f" 64 2 5
    else
        skip "halo3d_f: not built"
    fi
    if [ -x "$BUILD/examples/pencils" ]; then
        for halo in 1 2 3; do
            under_stridec 4 "pencils 128^3, 4 ranks, halo of $halo" "$BUILD/examples/pencils" 128 $halo 20
        done
    else
        skip "pencils: not built"
    fi
    for example in send_column hand_packing neighbours; do
        under_stridec 4 "$example, 4 ranks" "$BUILD/examples/$example"
    done
    under_stridec 2 "columns, 2 ranks" "$BUILD/examples/columns"
    under_stridec 2 "stencil_graph, 2 ranks" "$BUILD/examples/stencil_graph"
    try "columns without stridec, 2 ranks" tests/mpirun.sh -n 2 "$BUILD/examples/columns"
    for p in $PYTHON python3 /usr/bin/python3; do
        "$p" -c 'import mpi4py, numpy' 2>/dev/null && python=$p && break
    done
    if [ -n "${python:-}" ]; then
        under_stridec 2 "halo3d.py 64^3, 2 ranks" "$python" examples/halo3d.py 64 2 5
        package=$PWD/packaging/python${PYTHONPATH:+:$PYTHONPATH}
        for example in cupy_halo strided_torch; do   # they say so where CuPy and PyTorch are missing
            under_stridec 2 "$example.py, 2 ranks" env PYTHONPATH="$package" "$python" "examples/$example.py"
        done
        under_stridec 2 "stridec.datatype, 2 ranks" env PYTHONPATH="$PWD/tests/python/stand_in:$PWD/examples:$package" \
            "$python" tests/python/datatype.py
        under_stridec 2 "stridec.start_on, 2 ranks" env PYTHONPATH="$PWD/tests/python/stand_in:$PWD/examples:$package" \
            "$python" tests/python/order.py
    else
        skip "examples in Python: no python3 with mpi4py and numpy"
    fi
}

try_bytes() {
    [ -x "$BUILD/bench/pack" ] || { skip "bytes: the benchmarks are not built"; return; }
    for transport in oneshot staged; do
        export STRIDEC_TRANSPORT=$transport
        under_stridec 2 "bytes sent and received, $transport" "$BUILD/bench/pingpong" --check --span 300000000
        unset STRIDEC_TRANSPORT
    done
    under_stridec 1 "bytes packed and unpacked" "$BUILD/bench/pack" --check --span 1200000000
}

try_mpi() {   # NAME
    runs=$scratch/runs
    if [ -f "tests/mpi/$1.args" ]; then cp "tests/mpi/$1.args" "$runs"; else echo 2 >"$runs"; fi
    while read -r ranks arguments <&3; do
        # shellcheck disable=SC2086
        [ -z "$ranks" ] || under_stridec "$ranks" "tests/mpi/$1 $ranks $arguments" "$BUILD/tests/mpi/$1" $arguments
    done 3<"$runs"
}

mpi_programs() {
    for program in "$BUILD"/tests/mpi/*; do
        # Libraries; and what needs another tool or library in the process, or ends as it should by an abort.
        case ${program##*/} in *.so | tools | scarce | fatal) continue ;; esac
        { [ -f "$program" ] && [ -x "$program" ]; } && echo "${program##*/}"
    done
}

# sanitize TOOL RANKS PROGRAM ARGS...: kernels compiled by then are in the cache, so that most types meet their own.
sanitize() {
    tool=$1 ranks=$2
    shift 2
    try "$tool: ${1##*/}" tests/mpirun.sh -n "$ranks" "$sanitizer" --tool "$tool" \
        --target-processes all --error-exitcode 9 --report-api-errors no "$stridec" run -- "$@"
}

try_sanitizer() {   # TOOL...
    sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)
    if [ -z "$sanitizer" ]; then
        skip "sanitizer: no compute-sanitizer"
        return
    elif "$sanitizer" "$BUILD/examples/halo3d" 8 1 1 2>&1 | grep -q "Device not supported"; then
        skip "sanitizer: compute-sanitizer does not support this machine"
        return
    fi
    limit=${LIMIT:-90}
    # Random types of one seed for all tools. The first run, without a tool, fills the cache of modules.
    TEST_SEED=${TEST_SEED:-$(date +%s)}
    export TEST_SEED
    under_stridec 2 "before the tools: random types" "$BUILD/tests/mpi/random" 240 12
    for tool in "$@"; do
        # initcheck does not see what another process writes to memory that is opened here.
        [ "$tool" != initcheck ] || export STRIDEC_TRANSPORT=staged
        sanitize "$tool" 2 "$BUILD/examples/halo3d" 16 2 3
        sanitize "$tool" 2 "$BUILD/tests/mpi/random" 240 1
        [ ! -x "$BUILD/bench/pack" ] || sanitize "$tool" 1 "$BUILD/bench/pack" --check --span 5000000
        [ "$tool" = memcheck ] || continue
        sanitize "$tool" 2 "$BUILD/tests/mpi/edges"
        sanitize "$tool" 1 "$BUILD/tests/mpi/pack"
    done
    unset STRIDEC_TRANSPORT
    limit=${LIMIT:-300}
}

# soak_jobs: lines NUMBER RANKS MESSAGES THREADS SETTING...
soak_jobs() {
    awk -v all="${SOAK:-1000000}" -v threads="${THREADS:-2}" 'BEGIN {
        settings = split("1 STRIDEC_TRANSPORT=zerocopy|" threads " STRIDEC_TRANSPORT=auto|1 STRIDEC_TRANSPORT=staged|" \
            "1 STRIDEC_TRANSPORT=pipelined STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=20000|" \
            "1 STRIDEC_TRANSPORT=zerocopy STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=20000,least=600", setting, "|")
        for (n = 0; all > 0; n++) {
            messages = all < 16000 ? all : 16000
            print n, 2 ^ (1 + int(n / settings) % 3), messages, setting[1 + n % settings]
            all -= messages
        }
    }'
}

try_soak() {
    export LOGS SOAK_LIMIT="${LIMIT:-3600}" SOAK_LARGE=1
    # shellcheck disable=SC2016
    soak_jobs | xargs -P "${JOBS:-9}" -L 1 sh -c '
        ranks=$1 messages=$2 threads=$3 log=$LOGS/soak-$0.log
        shift 3
        what="soak: $messages messages, $ranks ranks, $threads threads each, $*"
        if env "$@" timeout "$SOAK_LIMIT" tests/mpirun.sh -n "$ranks" "$BUILD/stridec" run -- "$BUILD/tests/mpi/soak" "$messages" \
            "$threads" >"$log" 2>&1; then echo "ok $what"
        else echo "not ok $what (exit status $?):"; tail -30 "$log" | sed "s/^/    /"
        fi' >"$scratch/soak"
    cat "$scratch/soak"
    passed=$((passed + $(grep -c "^ok" "$scratch/soak")))
    failed=$((failed + $(grep -c "^not ok" "$scratch/soak")))
}

try_programs() {
    limit=${LIMIT:-7200}
    try programs env PROGRAMS_REAL=1 LOGS="$LOGS" PROGRAMS="${PROGRAMS:-5000}" JOBS="${JOBS:-4}" THREADS="${THREADS:-3}" LIMIT=900 \
        tests/programs/programs.sh "$BUILD"
}

for part in $parts; do
    case $part in
    doctor) try doctor "$stridec" doctor ;;
    examples) try_examples ;;
    bytes) try_bytes ;;
    mpi) for program in $(mpi_programs); do try_mpi "$program"; done ;;
    mpi/*) try_mpi "${part#mpi/}" ;;
    soak) try_soak ;;
    programs) try_programs ;;
    sanitizer) try_sanitizer memcheck racecheck initcheck ;;
    sanitizer/*) try_sanitizer "${part#sanitizer/}" ;;
    *)
        echo "not ok $part: no such part"
        failed=$((failed + 1))
        ;;
    esac
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
