#!/bin/bash
# light.sh BUILD: what stridec costs a process that it has nothing to do for: bench/overhead with and without it. A process
# that never loads CUDA gets no thread and less than 1 MiB of memory. One line a check; the times mean nothing here.
# $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 STRIDEC_CACHE_DIR=$work/cache
. tests/results.sh

measure() {   # NAME OPTION [PREFIX...]
    local name=$1 option=$2
    shift 2
    # shellcheck disable=SC2086
    BUILD=$build timeout 200 tests/mpirun.sh -n 2 "$@" "$build/bench/overhead" $option --rounds 20 "$work/$name.json" \
        >"$work/out" 2>&1
}

measure plain "" && measure none "" ${san:-} "$build/stridec" run --
result "without CUDA"
measure gpu --gpu ${san:-} "$build/stridec" run --sim --
result "with a GPU context"
compare() {   # EXPRESSION of plain, none and gpu
    python3 - "$work" "$1" >"$work/out" 2>&1 <<'PY'
import json, sys
runs = {name: json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("plain", "none", "gpu")}
assert len(runs["gpu"]["cases"]) == 8 and len(runs["gpu"]["queries"]) == 7
assert runs["none"]["preloaded"] and runs["gpu"]["preloaded"] and not runs["plain"]["preloaded"]
print({name: (r["threads"], r["anonymous_kb"]) for name, r in runs.items()})
assert eval(sys.argv[2], runs)
PY
}
compare 'plain["threads"] == none["threads"] > 0'
result "no thread without CUDA"
[ -n "${san:-}" ] || compare '0 < none["anonymous_kb"] < plain["anonymous_kb"] + 1024'
result "no memory worth naming without CUDA"
python3 bench/overhead.py "$work/gpu.json" "$work/none.json" "$work/plain.json" >"$work/report" 2>"$work/out" &&
    grep -q '^| GPU context | mapped | rate |' "$work/report" && grep -q '^| cuMemGetAddressRange |' "$work/report"
result "the report"
exit $failed
