#!/bin/sh
# programs.sh BUILD [MPICC]: runs random MPI programs in jobs of some hundred, each under a random setting, and shrinks what differs.
# Jobs in host memory run a second time with the MPI alone, and every program must bring the same: bytes, statuses, errors (--digest).
# Files that programs write lie in a temporary folder. Windows and files are drawn in some jobs alone (known.h).
# Prints a line for each job that fails, and the totals last: "# programs: N without a difference, M jobs failed".
# Variables: PROGRAMS, how many (2000), or HOURS, how long; TEST_SEED, where the seeds begin (drawn, and printed); JOBS at a time (1); EACH,
# programs of a job (200); RANKS, a list to choose from; PROGRAMS_REAL=1: on this machine's GPUs instead of the simulated one; THREADS, of a
# program at most (3; 1 for an MPI that does not stand threads); SHRINK=0: don't; LOGS, a folder for the output of failed jobs.
build=${1:?usage: programs.sh BUILD [MPICC]}
MPICC=${2:-${MPICC:-mpicc}}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
seed=${TEST_SEED:-$(($(date +%s) * 100000 + $$))}
each=${EACH:-200}
LOGS=${LOGS:-$work}
mkdir -p "$LOGS"
# One cache for all: what some jobs compile others find, also those in which no compiler is at hand.
: "${STRIDEC_CACHE_DIR=$work/cache}" "${OMPI_MCA_osc=pt2pt}" "${STRIDEC_LOG=error}"
export MPICC STRIDEC_CACHE_DIR OMPI_MCA_osc STRIDEC_LOG
[ "$STRIDEC_LOG" != none ] || unset STRIDEC_LOG
case $MPICC in
*mpich*) ranks=${RANKS:-2 2 2 3} ;;   # its ranks never yield
*) ranks=${RANKS:-2 2 2 2 3 3 4 5} ;;
esac

# setting NUMBER: of a job, the same for the same number: RANKS, variables, "--", and arguments.
setting() {
    awk -v number="$1" -v ranks="$ranks" -v real="${PROGRAMS_REAL:-}" -v aware="$(cd "$build" && pwd)/sim/libaware.so" \
        -v threads="${THREADS:-3}" 'function pick(list,   words, n) { n = split(list, words, "|"); return words[1 + int(rand() * n)] }
    BEGIN {
        srand(number % 2147483647); rand(); rand()
        n = split(ranks, rank, " ")
        line = rank[1 + int(rand() * n)]
        host = rand() < 0.15
        transport = pick("auto|auto|oneshot|staged|zerocopy|zerocopy|pipelined|device")
        open = !real && (transport == "device" || rand() < 0.25)
        if (transport == "pipelined") line = line " STRIDEC_PIPELINE=1 STRIDEC_CHUNKS=chunk=" pick("4096,least=600|20000,least=2000")
        if (transport == "device" && host) transport = "auto"
        line = line " STRIDEC_TRANSPORT=" transport " STRIDEC_HOST=" pick("auto|on|off") " STRIDEC_ENGINE=" pick("auto|auto|kernel|copy")
        if (rand() < 0.8) line = line " STRIDEC_CC=/bin/false"
        if (!real && !host) {
            if (open) line = line " LD_PRELOAD=" aware " SIMGPU_OPEN=1"
            if (rand() < 0.5) line = line " SIMGPU_EAGER=1"
            if (rand() < 0.85) line = line " SIMGPU_NVRTC_FAIL=1"
        }
        line = line " --"
        if (host) line = line " --host"
        if (real) line = line " --near"
        print line " --threads " (rand() < 0.5 ? 1 : threads)
    }'
}

# programs RANKS ARGUMENT...: random programs, under $variables and what $under names.
programs() {
    n=$1
    shift
    # shellcheck disable=SC2086
    env TMPDIR="$work" $variables timeout -k 5 "${LIMIT:-900}" "$here/../mpirun.sh" -n "$n" $under "$build/tests/programs/programs" "$@" </dev/null
}

# differing NAME NAME: prints the seeds of the programs whose digests are not alike on all ranks; fails if there are any, or no digests.
differing() {
    [ -s "$1.0" ] || { echo "none"; return 1; }
    for rank in "$1".[0-9]*; do diff "$rank" "$2.${rank##*.}" 2>&1; done | awk '/^[<>]/ { print $2; next } !/^[0-9-]/' | sort -u >"$1.seeds"
    head -5 "$1.seeds"
    [ ! -s "$1.seeds" ]
}

# alone NUMBER RANKS ARGUMENT...: the programs of a job in host memory with the MPI alone. Prints what is not as it was with stridec.
alone() {
    alone_log=$LOGS/job-$1-alone.log alone=$work/alone.$1 digest=$work/digest.$1 under=''
    shift
    if ! programs "$@" --digest "$alone" >"$alone_log" 2>&1; then
        echo "not ok: the MPI alone:"
        grep -E '^not ok' "$alone_log" || tail -5 "$alone_log"
    elif seeds=$(differing "$digest" "$alone"); then
        rm -f "$alone_log"
    else
        echo "not ok: the MPI alone brings something else with seeds $(echo "$seeds" | tr '\n' ' ')"
    fi
    rm -f "$alone".* "$digest".*
}

# job NUMBER: the programs of one job. Its totals go to $work/good.*, its failure to the output.
job() {
    first=$((seed + $1 * each))
    log=$LOGS/job-$1.log
    # shellcheck disable=SC2046
    set -- "$1" $(setting "$first")
    number=$1 n=$2 variables=
    shift 2
    while [ "$1" != -- ]; do variables="$variables $1"; shift; done
    shift
    sim=--sim digest=''
    case "${PROGRAMS_REAL:+real} $*" in real* | *--host*) sim= ;; esac
    case " $* " in *" --host "*) digest="--digest $work/digest.$number" ;; esac
    under="$build/stridec run $sim --"
    # The sanitizer's runtime comes before all other libraries, but not into mpirun.
    if [ -n "${SAN:-}" ]; then
        asan=$(gcc -print-file-name=libasan.so) preload=$(echo "$variables" | sed -n 's/.* LD_PRELOAD=\([^ ]*\).*/\1/p')
        variables=$(echo "$variables" | sed 's/ LD_PRELOAD=[^ ]*//')
        under="env LD_PRELOAD=$asan${preload:+:$preload} ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 $under"
    fi
    # shellcheck disable=SC2086
    programs "$n" "$first" "$each" "$@" $digest >"$log" 2>&1
    status=$?
    sed -n 's/^# programs: \([0-9]*\) without.*/\1/p' "$log" >"$work/good.$number"
    [ $status != 0 ] || [ -z "$digest" ] || alone "$number" "$n" "$first" "$each" "$@" >>"$log"
    if [ $status = 0 ] && [ -s "$work/good.$number" ] && ! grep -q '^not ok' "$log"; then
        rm -f "$log"
        return
    fi
    echo "not ok programs $first to $((first + each - 1)), exit status $status: $variables mpirun -n $n ... $*"
    : >"$work/failed.$number"
    grep -E '^not ok' "$log" | head -6 | cut -c1-300 | sed 's/^/    /'
    grep -E '^not ok' "$log" >/dev/null || tail -5 "$log" | cut -c1-300 | sed 's/^/    /'
    bad=$(sed -n 's/^not ok seed \([0-9]*\):.*/\1/p' "$log" | head -1)
    # shellcheck disable=SC2086
    [ -z "$bad" ] || [ "${SHRINK:-1}" = 0 ] || env $variables PROGRAMS_SIM="$sim" "$here/shrink.sh" "$build" "$n" "$bad" "$@" | sed 's/^/    /'
}

worker() {   # NUMBER: every so many-th job
    i=$1
    while :; do
        if [ -n "$HOURS" ]; then
            [ "$(date +%s)" -lt "$end" ] || break
        else
            [ $((i * each)) -lt "${PROGRAMS:-2000}" ] || break
        fi
        job "$i"
        i=$((i + ${JOBS:-1}))
    done
}

# It must be able to fail.
variables='' under=''
if programs 2 1 3 --host --plant --digest "$work/spoilt" >"$work/plant" 2>&1 || ! grep -q '^not ok seed' "$work/plant"; then
    echo "not ok programs: bytes that were spoilt are not found, or nothing ran:"
    tail -5 "$work/plant"
    exit 1
fi
programs 2 1 3 --host --digest "$work/right" >"$work/plant" 2>&1
if [ "$(differing "$work/spoilt" "$work/right" | wc -l)" != 3 ]; then
    echo "not ok programs: digests that were spoilt are not found"
    exit 1
fi

[ -z "$HOURS" ] || end=$(awk -v now="$(date +%s)" -v hours="$HOURS" 'BEGIN { printf "%d", now + hours * 3600 }')
echo "# TEST_SEED=$seed, $MPICC, jobs of $each programs"
w=0
while [ $w -lt "${JOBS:-1}" ]; do
    worker $w &
    w=$((w + 1))
done
wait
good=$(cat "$work"/good.* 2>/dev/null | awk '{ n += $1 } END { print n + 0 }')
failed=$(find "$work" -name 'failed.*' | wc -l)
if [ "$failed" = 0 ] && [ "$good" -gt 0 ]; then echo "ok programs: $good without a difference"; fi
echo "# programs: $good without a difference, $failed jobs failed"
[ "$failed" = 0 ] && [ "$good" -gt 0 ]
