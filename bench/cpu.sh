#!/bin/sh
# cpu.sh: `bench/cpu.sh OUT_DIR BUILD_DIR...`: packing in host memory, with the MPI of each built tree, and writes
# OUT_DIR/cpu-pack.{json,md,png}. Needs no GPU; python3 (matplotlib for the plot) and, for the counts of instructions,
# valgrind. Variables: MOST: the largest size (16777216); COUNT_MOST: the largest whose instructions are counted (65536);
# MS: milliseconds for each case and direction (12): two MPIs then take two to four minutes.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD
mkdir -p "${1:?usage: cpu.sh OUT_DIR BUILD_DIR...}" && out=$(cd "$1" && pwd) || exit 1
shift
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1 STRIDEC_CACHE_DIR="$scratch/cache"
i=0 runs=
for build; do
    i=$((i + 1)) build=$(cd "$build" && pwd) || exit 1
    # Alone, an MPI's program needs no mpirun.
    (cd "$scratch" && "$build/stridec" run -- "$build/bench/cpu_pack" --ms "${MS:-12}" --most "${MOST:-16777216}" \
        "run-$i.json") || exit 1
    runs="$runs $scratch/run-$i.json"
    if command -v valgrind >/dev/null; then
        mkdir "$scratch/count-$i"
        (cd "$scratch/count-$i" && "$build/stridec" run -- valgrind -q --tool=callgrind --instr-atstart=no \
            "$build/bench/cpu_pack-count" --count --most "${COUNT_MOST:-65536}") >"$scratch/log" 2>&1 || tail -3 "$scratch/log"
        runs="$runs:$scratch/count-$i"
    fi
done
# shellcheck disable=SC2086
python3 "$here/bench/cpu.py" "$out/cpu-pack.json" $runs
