#!/bin/bash
# bench.sh BUILD: the benchmarks run to their end on the simulated GPU, with small layouts and blocks and few kernels,
# and their results make reports. One line a check; the times mean nothing here. $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache PYTHONDONTWRITEBYTECODE=1
. tests/results.sh

ranks=1
bench() {   # PROGRAM ARGUMENT..., by $ranks
    local program=$1
    shift
    BUILD=$build timeout 200 tests/mpirun.sh -n "$ranks" ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} "$build/stridec" run --sim -- "$build/bench/$program" "$@" \
        >"$work/out" 2>&1
}

report() {   # RESULTS PATTERN...
    python3 bench/report.py "$1" >"$work/report" 2>>"$work/out" || return 1
    cp "$work/report" "$work/out"
    shift
    for pattern; do grep -qE -- "$pattern" "$work/report" || return 1; done
}

bench pack --span 200000 --best 3 "$work/pack.json" && grep -q 'layouts verified, 0 wrong' "$work/out"
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
bench pack --span 100000 --no-best "$work/plain.json" && grep -q '"best_us": null' "$work/plain.json" &&
    report "$work/plain.json"
result "pack without other kernels"
bench commit --warm && bench commit --blocks 10000 "$work/commit.json"
result "commit"
report "$work/commit.json" '^\| hindexed \| 1,024 \|' '10,000 \|' '^\| vector \| shared \|' \
    '^\| indexed, 10,000 blocks \| cache \|' 'above the MPI'
result "commit's report, warm from disk"
bench commit --lists --blocks 1024 "$work/lists.json" &&
    report "$work/lists.json" '^\| struct of doubles and ints \| 1,024 \|'
result "commit of lists alone"
bench fresh --types 25 "$work/fresh.json" && grep -q '25 types, 0 with wrong bytes' "$work/out" &&
    report "$work/fresh.json" '^\| first MPI_Unpack \|'
result "fresh"

ranks=2
rows() {   # RESULTS ROWS KEY...: so many rows, each right and with these figures
    python3 - "$@" >"$work/out" 2>&1 <<'EOF'
import json, sys
name, rows, *keys = sys.argv[1:]
results = json.load(open(name))
assert all(key in results for key in ("machine", "versions", "date", "command"))
assert len(results["cases"]) == int(rows), len(results["cases"])
for c in results["cases"]:
    assert c["ok"] is True and all(c[key] > 0 for key in keys), c
EOF
}
times="bytes block us contiguous_us pack_us unpack_us"
bench pingpong --quick --span 20000 "$work/pingpong.json" && grep -q 'layouts verified, 0 wrong' "$work/out"
result "pingpong"
# shellcheck disable=SC2086
rows "$work/pingpong.json" 6 $times &&
    report "$work/pingpong.json" '^Time ÷ limit over 6 rows' 'Waitall \| 1,024 \| 32 \|'
result "pingpong's report"
STRIDEC_TRANSPORT=staged bench pingpong --quick --send --span 20000 "$work/choice-2.json" &&
    bench pingpong --quick --send --span 20000 "$work/choice-1.json" &&
    python3 bench/join.py choice "$work/choice.json" "$work"/choice-?.json "$work/none.json" 2>>"$work/out" &&
    rows "$work/choice.json" 6 && report "$work/choice.json" 'auto \| staged \| best forced' 'best forced over 3 rows'
result "the choice of transport"
bench pingpong --quick --limit 0 "$work/late.json" && grep -q '0 layouts verified' "$work/out" &&
    rows "$work/late.json" 0 && report "$work/late.json"
result "pingpong ends when its time has passed"
bench pingpong --mixed --check && grep -q 'verified, 0 wrong' "$work/out"
result "contiguous and derived messages by turns"
mixed() {   # the report, of two runs that are the same
    sed 's/"us": \([0-9.]*\)/"us": \1, "mean_us": \1/' "$work/pingpong.json" >"$work/mixed-1.json"
    (cd bench && python3 mixed.py "$work/mixed.json" "$work/mixed-1.json" -- "$work/mixed-1.json") >"$work/out" 2>&1 &&
        grep -q 'at most 1.05 in 6 of 6 rows' "$work/out"
}
mixed
result "their report"
first() {   # each kind once, and the report beside a run that is the same
    bench pingpong --first "$work/first.json" && grep -q 'first messages verified, 0 wrong' "$work/out" &&
        rows "$work/first.json" 13 bytes us mean_us &&
        (cd bench && python3 mixed.py "$work/mixed.json" "$work/first.json" -- "$work/first.json") >"$work/out" 2>&1 &&
        grep -q '^| 4 fields 64 KiB, 256 B, first |' "$work/out"
}
first
result "first messages of a process"
bench halo --warm 0.1 --n 6 "$work/halo-2.json"
result "halo"
bench stencil --warm 0.1 --n 5 --radius 3 "$work/stencil-2.json"
result "stencil"
ranks=3
bench halo --warm 0.1 --n 4 --radius 1 "$work/halo-3.json" && bench stencil --warm 0.1 --n 4 "$work/stencil-3.json"
result "halo and stencil of three ranks"
python3 bench/join.py halo "$work/halo.json" "$work"/halo-?.json && rows "$work/halo.json" 22 us n radius gpus &&
    report "$work/halo.json" '^\| 2 \| 3 \| 4\^3 \| 1 \| persistent \|' '\| link, reading \|' '^Link: ' 'The link: ' \
        '^2 ranks, 6\^3, radius 2: the halo adds ' '^2 ranks, 6\^3, radius 2: by hand the halo adds '
result "halo's report"
ranks=2
SIMGPU_DEVICES=2 SIMGPU_PEERS=0 bench halo --warm 0.1 --n 6 "$work/apart.json" && rows "$work/apart.json" 6 us &&
    bench halo --warm 0.1 --n 6 "$work/apart.json" && rows "$work/apart.json" 11 us
result "halo leaves out what GPUs that reach each other need"
python3 bench/join.py stencil "$work/stencil.json" "$work"/stencil-?.json &&
    rows "$work/stencil.json" 6 us n radius gpus &&
    report "$work/stencil.json" '5\^3 \| 3 \| pack, alltoallv, unpack' '4\^3 \| 2 \| hand-written'
result "stencil's report"
bench collectives --warm 0.1 --n 6 "$work/collectives-2.json" && ranks=3 &&
    bench collectives --warm 0.1 --n 6 "$work/collectives-3.json" &&
    python3 bench/join.py collectives "$work/collectives.json" "$work"/collectives-?.json &&
    rows "$work/collectives.json" 12 us contiguous_us n ranks leaving_bytes &&
    report "$work/collectives.json" '\| alltoallw, slabs to z pencils \| 6 \|' '\| bcast of rows \|' 'The link: '
result "collectives"
ranks=2

# shellcheck disable=SC2086
cpu() {   # PROGRAM PATTERN [ARGUMENT]: 4 sizes of a kernel in host memory, and their report
    bench "$1" ${3:-} --ms 0.5 --only "stencil y" --least 4096 --most 262144 "$work/$1-1.json" &&
        grep -q ': 4 cases, 0 wrong' "$work/out" && python3 bench/cpu.py "$work/$1.json" "$work/$1-1.json" >>"$work/out" 2>&1 &&
        [ "$(grep -cE "$2" "$work/$1.md")" -eq 4 ]
}
ranks=1
cpu cpu_pack '÷ stridec: .* behind in [0-4] of 4\.'
result "packing in host memory"
ranks=2
cpu cpu_pingpong '÷ stridec: .* behind in [0-4] of [1-4]\.'
result "messages in host memory"
cpu cpu_pingpong '÷ stridec: .* behind in [0-4] of [1-4]\.' --both
result "messages both ways at once in host memory"
cpu cpu_pingpong '÷ stridec: .* behind in [0-4] of [1-4]\.' --self
result "messages to oneself in host memory"
exit $failed
