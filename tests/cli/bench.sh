#!/bin/bash
# bench.sh BUILD: the benchmarks of one rank run to their end on the simulated GPU, with small layouts and few kernels,
# and their results make reports. One line a check; the times mean nothing here. $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache PYTHONDONTWRITEBYTECODE=1
failed=0
result() {   # NAME, after a command
    if [ $? -eq 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; sed 's/^/    /' "$work/out" | tail -15; fi
}

bench() {   # PROGRAM ARGUMENT...
    local program=$1
    shift
    BUILD=$build timeout 200 tests/mpirun.sh -n 1 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} "$build/stridec" run --sim -- "$build/bench/$program" "$@" \
        >"$work/out" 2>&1
}

report() {   # RESULTS PATTERN...
    python3 bench/report.py "$1" >"$work/report" 2>>"$work/out" || return 1
    cp "$work/report" "$work/out"
    shift
    for pattern; do grep -qE -- "$pattern" "$work/report" || return 1; done
}

bench pack --span 600000 --best 3 "$work/pack.json" && grep -q 'layouts verified, 0 wrong' "$work/out"
result "pack, with other kernels"
columns() {   # every row has all columns, and no kernel is quicker than the best
    python3 - "$work/pack.json" >"$work/out" 2>&1 <<'EOF'
import json, sys
results = json.load(open(sys.argv[1]))
assert all(key in results for key in ("machine", "versions", "date", "command"))
assert len(results["cases"]) >= 2
for c in results["cases"]:
    for key in ("pack_us", "unpack_us", "contiguous_us", "floor_us", "floor_unpack_us", "best_us", "best_unpack_us"):
        assert c[key] > 0, (c["case"], key)
    assert c["ok"] is True and c["best_us"] <= c["pack_us"] and c["best_unpack_us"] <= c["unpack_us"], c
assert any(c.get("variants") == 3 for c in results["cases"])
EOF
}
columns
result "pack's results are whole"
report "$work/pack.json" 'Time ÷ best kernel found over' '^1 KiB against launching' 'The best kernels found'
result "pack's report"
bench pack --span 600000 --no-best "$work/plain.json" && grep -q '"best_us": null' "$work/plain.json" &&
    report "$work/plain.json"
result "pack without other kernels"
bench commit --warm && bench commit --blocks 10000 "$work/commit.json"
result "commit"
report "$work/commit.json" '10,000 \|' '^\| vector \| cache \|' 'above the MPI'
result "commit's report, warm from disk"
exit $failed
