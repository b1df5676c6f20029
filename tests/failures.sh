#!/bin/bash
# failures.sh BUILD [SAMPLE]: fails, in runs of their own, what stridec asks for from MPI_Init to MPI_Finalize: each allocation that
# comes by another way (libmemory.so tells of them), on each rank, once and with all later ones; each call of the driver. A run does
# what it does otherwise, or the MPI ends the job by an error: none crashes, hangs or has a wrong byte. SAMPLE: that many of the runs
# of each kind, no others. FAILURES names the kinds (all: "within host zerocopy oneshot driver window file partitioned").
build=${1:?usage: failures.sh BUILD [SAMPLE]} sample=${2:-0}
export BUILD=$build
here=$(cd "$(dirname "$0")" && pwd)
tools=$(cd "$build" && pwd -P)/tests/mpi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
export STRIDEC_CACHE_DIR=$work/cache
passed=0 failed=0

# one KIND: runs it, with what the environment adds.
one() {
    local sim=--sim program=scarce args=${ARGS:-once} ranks=2
    case $1 in
    host) sim='' args="--host ${ARGS:-once}"; local -x STRIDEC_HOST=on ;;
    zerocopy | driver) local -x STRIDEC_TRANSPORT=zerocopy ;;
    oneshot | staged) local -x STRIDEC_TRANSPORT=$1 ;;
    window | file | partitioned) program=$1 args='' ;;
    esac
    # shellcheck disable=SC2086
    LD_PRELOAD=$tools/libmemory.so timeout -k 5 "${LIMIT:-100}" "$here/mpirun.sh" -n $ranks "$build/stridec" run $sim -- \
        "$tools/$program" $args >"$work/out" 2>&1 </dev/null
}

# tell NAME STATUS: the MPI's abort is an end, too.
tell() {
    local good=no
    if [ "$2" = 0 ]; then
        grep -q '^# [1-9][0-9]* passed, 0 failed' "$work/out" && good=yes
    elif [ "$2" -lt 124 ]; then
        grep -qi '^not ok\|signal: \|(signal \|killed' "$work/out" || good=yes
    fi
    if [ $good = yes ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "not ok $1: exit status $2"
        grep -v '^#' "$work/out" | head -30 | sed 's/^/    /'
    fi
}

# some: of the lines of its input every so many-th, so that there are `sample`.
some() {
    awk -v n="$sample" -v seed="${TEST_SEED:-$$}" '{ line[NR] = $0 }
        END { srand(seed); step = n && NR > n ? NR / n : 1; for (i = 1 + int(rand() * step); i <= NR; i += step) print line[int(i)] }'
}

memory() {   # KIND
    local n rank more
    for rank in 0 1; do
        rm -f "$work/sites"
        MEMORY_RANK=$rank MEMORY_SITES=$work/sites one "$1"
        tell "$1: count" $?
        echo "# $1: $(wc -l <"$work/sites") ways to $(tail -1 "$work/sites") allocations on rank $rank"
        for more in '' +; do
            for n in $(some <"$work/sites"); do
                MEMORY_RANK=$rank MEMORY_FAIL=$n$more one "$1"
                tell "$1: allocation $n$more of rank $rank" $?
            done
        done
    done
}

driver() {
    local call
    for call in $(sed -n '/^#define DRIVER_CALLS/,/^$/p; /^#define DRIVER_GRAPH_CALLS/,/^$/p' "$here/../runtime/device/driver.h" |
        grep -o 'X(cu[A-Za-z0-9]*)' | tr -d 'X()' | sed 's/$/ /; s/\(.*\) /\1 \1:2+ \1:5+/' | tr ' ' '\n' | some); do
        SIMGPU_FAIL=$call one driver
        tell "driver: $call" $?
    done
}

# Within one process, where no sample will do.
within() {
    local line
    for line in 'host memory' 'zerocopy memory' 'oneshot memory' 'zerocopy driver' 'oneshot driver' 'staged driver'; do
        LIMIT=3600 ARGS="every ${line#* }" one "${line% *}"
        tell "within: $line" $?
    done
}

for kind in ${FAILURES:-within host zerocopy oneshot driver window file partitioned}; do
    case $kind in driver | within) $kind ;; *) memory "$kind" ;; esac
done
[ $failed = 0 ] && echo "ok $passed runs with failures"
echo "# $passed passed, $failed failed"
[ $failed = 0 ]
