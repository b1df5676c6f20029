#!/bin/sh
# run.sh: `bench/run.sh BUILD_DIR [OUT_DIR [PART...]]`: runs the built benchmarks on this machine's GPUs and writes to
# OUT_DIR (default bench/results) for each part, by default all of them:
#   pack        GPU-pack.{json,md,png}: MPI_Pack and MPI_Unpack
#   commit      GPU-commit.{json,md}: MPI_Type_commit and first calls; GPU-fresh.{json,md}: those of 1,000 new types
#   file        GPU-file.{json,md}: derived types in files
#   beside      GPU-beside-SETTING.json, GPU-beside.md: beside a computation
#   overhead    GPU-overhead-PROCESS.json, GPU-overhead.md: what contiguous messages in host memory pay
# and, on two GPUs or more, each {json,md,png}:
#   pingpong    GPU-pingpong: messages of derived types, Send and Recv, Isend and Irecv
#   hand        GPU-hand (no png): messages by stridec and as the best would write them by hand
#   stream      GPU-stream (no png): ping-pong driven by the host, on a stream and in a graph
#   halo        GPU-halo: the 26-neighbour halo by 2, 4 and 8 ranks, as many as there are GPUs; by 2 the MPI alone too
#   stencil     GPU-stencil: the exchange of a weakly scaled stencil by 1, 2, 4 and 8 ranks, and alike
#   collectives GPU-collectives (no png): transposes, gathers and broadcasts by 1, 2, 4 and 8 ranks; by 2 the MPI
#               alone too
#   choice      GPU-choice: the automatic choice of transport, and each forced one
#   mixed       GPU-mixed (no png): contiguous and derived messages by turns, beside the MPI alone
#   first       GPU-first-CACHE (no png): first messages of a process with an empty and a full cache, beside the MPI alone
# and, as root with Open MPI, on one GPU or more:
#   nodes       GPU-nodes.{json,md,png}: messages of 1 MiB and more between two "nodes" (bench/nodes.sh) by each
#               transport; GPU-nodes-stream.{json,md}: driven by the host, on a stream and in a graph
# Needs the built tree, mpirun and python3 (matplotlib for the plots). Variables: NAME: the GPU's name in the files'
# names; QUICK=1: fewer layouts in pingpong and choice, which take some 3 and 25 minutes else; TRANSPORTS: those of
# choice, auto first, one or more times each (in turn, so that no drift of the machine is taken for a difference), and
# NODES those of nodes, the same; RATE: of the link between those; PINGPONG, HALO, STENCIL, COLLECTIVES: more arguments
# for the program. With QUICK pingpong, halo, stencil and choice take at most some 90, 60, 90 and 250 seconds, nodes 60
# for each run.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD
build=$(cd "${1:-build}" && pwd) || exit 1
mkdir -p "${2:-bench/results}" && out=$(cd "${2:-bench/results}" && pwd) || exit 1
[ $# -lt 2 ] || shift
[ $# -lt 1 ] || shift
parts=${*:-pack commit file beside overhead pingpong hand stream halo stencil collectives choice mixed first nodes}
export BUILD="$build" PYTHONDONTWRITEBYTECODE=1
failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

gpus=$("$build/tests/gpu_count" 2>/dev/null || echo 0)
if [ "$gpus" -eq 0 ]; then
    echo "bench: no GPU found: nothing to measure"
    exit 0
fi
name=${NAME:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed -n '1{s/.* //;p;}' | tr '[:upper:]' '[:lower:]')}
name=${name:-gpu}

fail() {
    echo "bench: $1" >&2
    failed=1
}

# Of the MPI that the benchmarks were built with, where that is Open MPI.
cuda_aware() {
    compiler=$(command -v "${MPICC:-mpicc}") || return 1
    "$(dirname "$compiler")/ompi_info" --parsable --all 2>/dev/null | grep -q mpi_built_with_cuda_support:value:true
}

# ranks N COMMAND...: in the folder $at, so that the recorded command is the same everywhere.
ranks() {
    n=$1
    shift
    (cd "$at" && timeout "$limit" "$here/tests/mpirun.sh" -n "$n" "$@") || fail "$* ended with status $?"
}
# measure RANKS PROGRAM ARGUMENT...: with stridec.
measure() {
    n=$1 program=$2
    shift 2
    ranks "$n" "$build/stridec" run -- "$build/bench/$program" "$@"
}

report() {   # NAME
    python3 bench/report.py "$out/$1.json" >"$out/$1.md" || fail "no report for $1"
}
plot() {   # NAME
    if python3 -c 'import matplotlib' 2>/dev/null; then
        python3 bench/plot.py "$out/$1.json" "$out/$1.png" || fail "no plot of $1"
    else
        echo "bench: no plot of $1 (python3 with matplotlib makes it)"
    fi
}
# join BENCHMARK: the pieces BENCHMARK-*.json of scratch, in the order of their names.
join() {
    if python3 bench/join.py "$1" "$out/$name-$1.json" "$scratch/$1"-*.json; then
        report "$name-$1"
        plot "$name-$1"
    else
        failed=1
    fi
}

bench_pack() {
    measure 1 pack "$name-pack.json"
    report "$name-pack"
    plot "$name-pack"
    python3 -c "import matplotlib" 2>/dev/null && python3 bench/plot_peers.py "$out/$name-pack.json" "$out/$name-peers.svg"
}

# Lists with an empty cache. Then a first process fills the cache: the second one's first calls are those of a warm
# start.
bench_commit() {
    STRIDEC_CACHE_DIR=$scratch/no-types measure 1 fresh "$name-fresh.json"
    report "$name-fresh"
    STRIDEC_CACHE_DIR=$scratch/no-lists measure 1 commit --lists "$name-commit-cold.json"
    report "$name-commit-cold"
    measure 1 commit --warm
    measure 1 commit "$name-commit.json"
    report "$name-commit"
}

bench_file() {
    measure 1 file "$name-file.json"
    report "$name-file"
}

# With all multiprocessors, some of them, and the copy engine.
bench_beside() {
    measure 1 beside "$name-beside-all.json"
    STRIDEC_SM_LIMIT=16 measure 1 beside "$name-beside-sm16.json"
    STRIDEC_SM_LIMIT=4 measure 1 beside "$name-beside-sm4.json"
    STRIDEC_ENGINE=copy measure 1 beside "$name-beside-copy.json"
    (cd "$out" && python3 "$here/bench/beside.py" "$name"-beside-all.json "$name"-beside-sm16.json \
        "$name"-beside-sm4.json "$name"-beside-copy.json >"$name-beside.md") || fail "no report for beside"
}

# With a GPU context and without CUDA, preloaded and not.
bench_overhead() {
    measure 2 overhead --gpu "$name-overhead-gpu.json"
    ranks 2 "$build/bench/overhead" --gpu "$name-overhead-gpu-plain.json"
    measure 2 overhead "$name-overhead-none.json"
    ranks 2 "$build/bench/overhead" "$name-overhead-none-plain.json"
    (cd "$out" && python3 "$here/bench/overhead.py" "$name"-overhead-gpu.json "$name"-overhead-none.json \
        "$name"-overhead-gpu-plain.json "$name"-overhead-none-plain.json >"$name-overhead.md") || fail "no report for overhead"
}

# shellcheck disable=SC2086 # of arguments that are several words
bench_pingpong() {
    measure 2 pingpong ${QUICK:+--quick --limit 80} ${PINGPONG:-} "$name-pingpong.json"
    report "$name-pingpong"
    plot "$name-pingpong"
}

bench_hand() {
    measure 2 hand "$name-hand.json"
    report "$name-hand"
}

bench_stream() {
    measure 2 stream "$name-stream.json"
    report "$name-stream"
}

# shellcheck disable=SC2086
bench_halo() {
    at=$scratch limit=100
    for n in 2 4 8; do
        [ "$n" -gt "$gpus" ] || measure "$n" halo --limit 25 ${HALO:-} "halo-$n.json"
    done
    ranks 2 "$build/bench/halo" --limit 15 ${HALO:-} "halo-alone.json"
    join halo
}

# shellcheck disable=SC2086
bench_stencil() {
    at=$scratch limit=100
    for n in 1 2 4 8; do
        [ "$n" -gt "$gpus" ] || measure "$n" stencil --limit 30 ${STENCIL:-} "stencil-$n.json"
    done
    ranks 2 "$build/bench/stencil" --limit 20 ${STENCIL:-} "stencil-alone.json"
    join stencil
}

# shellcheck disable=SC2086
bench_collectives() {
    at=$scratch limit=150
    for n in 1 2 4 8; do
        [ "$n" -gt "$gpus" ] || measure "$n" collectives --limit 60 ${COLLECTIVES:-} "collectives-$n.json"
    done
    ! cuda_aware || ranks 2 "$build/bench/collectives" --limit 30 ${COLLECTIVES:-} "collectives-alone.json"
    if python3 bench/join.py collectives "$out/$name-collectives.json" "$scratch"/collectives-*.json; then
        report "$name-collectives"
    else
        failed=1
    fi
}

# shellcheck disable=SC2086
bench_choice() {
    at=$scratch
    transports=${TRANSPORTS:-auto zerocopy oneshot staged$(cuda_aware && echo " device") zerocopy auto auto zerocopy}
    i=0
    for transport in $transports; do
        i=$((i + 1))
        STRIDEC_TRANSPORT=$transport \
            measure 2 pingpong --send ${QUICK:+--quick --limit 28} ${PINGPONG:-} "choice-$i.json"
    done
    join choice
}

# The two kinds of runs take turns, so that no drift of the machine is taken for a difference.
bench_mixed() {
    at=$scratch limit=150
    export OMPI_MCA_hwloc_base_binding_policy=core   # as mpirun binds two ranks by itself
    for i in $(seq -w 25); do   # where the ranks come to lie makes 10 % between two runs
        ranks 2 "$build/bench/pingpong" --mixed "alone-$i.json"
        measure 2 pingpong --mixed "mixed-$i.json"
    done
    python3 bench/mixed.py "$out/$name-mixed.json" "$scratch"/alone-*.json -- "$scratch"/mixed-*.json \
        >"$out/$name-mixed.md" || fail "no report for mixed"
    unset OMPI_MCA_hwloc_base_binding_policy
}

# One message of each kind tells little: the median over processes does.
bench_first() {
    at=$scratch limit=100
    STRIDEC_CACHE_DIR=$scratch/full measure 2 pingpong --first filled.json
    for i in $(seq 9); do
        ranks 2 "$build/bench/pingpong" --first "first-alone-$i.json"
        STRIDEC_CACHE_DIR=$scratch/empty-$i measure 2 pingpong --first "first-empty-$i.json"
        STRIDEC_CACHE_DIR=$scratch/full measure 2 pingpong --first "first-full-$i.json"
    done
    for cache in empty full; do
        python3 bench/mixed.py "$out/$name-first-$cache.json" "$scratch"/first-alone-*.json -- \
            "$scratch/first-$cache"-*.json >"$out/$name-first-$cache.md" || fail "no report for first messages, $cache cache"
    done
}

# shellcheck disable=SC2086
bench_nodes() {
    at=$scratch limit=300
    if [ "$(id -u)" != 0 ] || ! ip netns list >/dev/null 2>&1; then
        echo "bench: nodes needs root and ip: left out"
        return
    fi
    i=0
    for transport in ${NODES:-auto oneshot staged pipelined pipelined staged staged pipelined}; do
        i=$((i + 1))
        (cd "$at" && export STRIDEC_PIPELINE=1 STRIDEC_TRANSPORT="$transport" &&
            timeout "$limit" "$here/bench/nodes.sh" 2 "$build/stridec" run -- "$build/bench/pingpong" --send \
                --least 1048576 ${QUICK:+--quick --limit 60} ${PINGPONG:-} "nodes-$i.json") ||
            fail "nodes by $transport ended with status $?"
    done
    join nodes
    (cd "$out" && timeout "$limit" "$here/bench/nodes.sh" 2 "$build/stridec" run -- "$build/bench/stream" --threads \
        "$name-nodes-stream.json") || fail "nodes-stream ended with status $?"
    report "$name-nodes-stream"
}

for part in $parts; do
    at=$out limit=900
    case $part in
    pingpong | hand | stream | halo | stencil | collectives | choice | mixed | first)
        [ "$gpus" -gt 1 ] || { echo "bench: $part needs two GPUs: left out"; continue; } ;;
    esac
    case $part in
    pack) bench_pack ;;
    commit) bench_commit ;;
    file) bench_file ;;
    beside) bench_beside ;;
    overhead) bench_overhead ;;
    pingpong) bench_pingpong ;;
    hand) bench_hand ;;
    stream) bench_stream ;;
    halo) bench_halo ;;
    stencil) bench_stencil ;;
    collectives) bench_collectives ;;
    choice) bench_choice ;;
    mixed) bench_mixed ;;
    first) bench_first ;;
    nodes) bench_nodes ;;
    *) fail "there is no part $part" ;;
    esac
done
exit $failed
