#!/bin/sh
# run.sh: `bench/run.sh BUILD_DIR [OUT_DIR]`: runs the built benchmarks on this machine's GPU and writes results,
# report and plot to OUT_DIR (default bench/results) as GPU-pack.*, GPU-commit.*, GPU-beside*.* and, on two GPUs or more,
# GPU-pingpong-TRANSPORT.*. Needs the built tree, mpirun and python3 (matplotlib for the plot). NAME overrides the GPU's
# name in the files' names.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD
build=$(cd "${1:-build}" && pwd) || exit 1
mkdir -p "${2:-bench/results}" && out=$(cd "${2:-bench/results}" && pwd) || exit 1
export BUILD="$build"
failed=0

gpus=$("$build/tests/gpu_count" 2>/dev/null || echo 0)
if [ "$gpus" -eq 0 ]; then
    echo "bench: no GPU found: nothing to measure"
    exit 0
fi
name=${NAME:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed -n '1{s/.* //;p;}' | tr '[:upper:]' '[:lower:]')}
name=${name:-gpu}

# measure RANKS PROGRAM NAME: in OUT_DIR, so that the recorded command is the same everywhere.
measure() {
    (cd "$out" && "$here/tests/mpirun.sh" -n "$1" "$build/stridec" run -- "$build/bench/$2" "$3.json")
    status=$?
    [ $status -eq 0 ] || { echo "bench: $2 ended with status $status" >&2; failed=1; }
    if ! python3 bench/report.py "$out/$3.json" >"$out/$3.md"; then
        echo "bench: no report for $3" >&2
        failed=1
    fi
}

measure 1 pack "$name-pack"
python3 -c 'import matplotlib' 2>/dev/null && python3 bench/plot.py "$out/$name-pack.json" "$out/$name-pack.png" ||
    echo "bench: no plot (python3 with matplotlib makes it)"

# A first process fills the cache: the second one's first calls are those of a warm start.
"$here/tests/mpirun.sh" -n 1 "$build/stridec" run -- "$build/bench/commit" --warm || failed=1
measure 1 commit "$name-commit"

# Beside a computation, with all multiprocessors, some of them, and the copy engine.
beside() {   # NAME
    (cd "$out" && "$here/tests/mpirun.sh" -n 1 "$build/stridec" run -- "$build/bench/beside" "$name-beside-$1.json") || failed=1
}
beside all
STRIDEC_SM_LIMIT=16 beside sm16
STRIDEC_SM_LIMIT=4 beside sm4
STRIDEC_ENGINE=copy beside copy
(cd "$out" && python3 "$here/bench/beside.py" "$name"-beside-all.json "$name"-beside-sm16.json "$name"-beside-sm4.json \
    "$name"-beside-copy.json >"$name-beside.md") || failed=1

transports="auto oneshot staged"
ompi_info --parsable --all 2>/dev/null | grep -q mpi_built_with_cuda_support:value:true && transports="$transports device"
[ "$gpus" -gt 1 ] || transports=
for transport in $transports; do
    STRIDEC_TRANSPORT=$transport measure 2 pingpong "$name-pingpong-$transport"
done
exit $failed
