#!/bin/sh
# cpu.sh: `bench/cpu.sh OUT_DIR BUILD_DIR...`: packing in host memory, messages between two ranks of a node, one after the
# other and both ways at once, and of a rank to itself, with the MPI of each built tree; writes
# OUT_DIR/cpu-{pack,pingpong,both,self}.{json,md,png}. Needs no GPU; python3 (matplotlib for the plot) and, for the counts
# of instructions, valgrind. Variables: MOST: the largest size (16777216); COUNT_MOST: the largest whose instructions are
# counted (65536); MS: milliseconds for each case and direction (12): packing with two MPIs then takes two to four minutes;
# PACK=0, PINGPONG=0, BOTH=0, SELF=0: leave that out; MPICC_OF_n: the mpicc of the n-th tree, where it is not mpicc, or
# mpicc.mpich of a folder mpich.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD
mkdir -p "${1:?usage: cpu.sh OUT_DIR BUILD_DIR...}" && out=$(cd "$1" && pwd) || exit 1
shift
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1 STRIDEC_CACHE_DIR="$scratch/cache"
ranks() {   # RANKS PROGRAM...
    n=$1
    shift
    MPICC=$mpicc "$here/tests/mpirun.sh" -n "$n" "$build/stridec" run -- "$@"
}
messages() {   # NAME [ARGUMENT]
    (cd "$scratch" && ranks 2 "$build/bench/cpu_pingpong" ${2:-} --ms "${MS:-12}" --most "${MOST:-16777216}" "$1-$i.json")
}

i=0 runs=
for build; do
    i=$((i + 1)) build=$(cd "$build" && pwd) || exit 1
    case $build in *mpich) mpicc=mpicc.mpich ;; *) mpicc=mpicc ;; esac
    eval "mpicc=\${MPICC_OF_$i:-$mpicc}"
    if [ "${PINGPONG:-1}" != 0 ]; then messages pingpong || exit 1; fi
    if [ "${BOTH:-1}" != 0 ]; then messages both --both || exit 1; fi
    if [ "${SELF:-1}" != 0 ]; then messages self --self || exit 1; fi
    [ "${PACK:-1}" != 0 ] || continue
    # Not without mpirun: alone, Open MPI looks at the machine by itself, and hwloc's plug-ins may load a GPU's driver, which is
    # asked about addresses from then on.
    (cd "$scratch" && ranks 1 "$build/bench/cpu_pack" --ms "${MS:-12}" --most "${MOST:-16777216}" "run-$i.json") || exit 1
    runs="$runs $scratch/run-$i.json"
    if command -v valgrind >/dev/null; then
        mkdir "$scratch/count-$i"
        (cd "$scratch/count-$i" && ranks 1 valgrind -q --tool=callgrind --instr-atstart=no \
            "$build/bench/cpu_pack-count" --count --most "${COUNT_MOST:-65536}") >"$scratch/log" 2>&1 || tail -3 "$scratch/log"
        runs="$runs:$scratch/count-$i"
    fi
done
for name in pingpong both self; do
    set -- "$scratch/$name"-*.json
    [ ! -e "$1" ] || python3 "$here/bench/cpu.py" "$out/cpu-$name.json" "$@"
done
# shellcheck disable=SC2086
[ -z "$runs" ] || python3 "$here/bench/cpu.py" "$out/cpu-pack.json" $runs
