#!/bin/bash
# trace.sh BUILD: the timeline of `stridec run --trace`, `stridec trace`, and NVTX ranges for a profiler. One line a
# check. Variables: MPICC; $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache STRIDEC_HOST=on PYTHONDONTWRITEBYTECODE=1
. tests/results.sh
ranks() {   # N [NAME=VALUE...] -- COMMAND...: its output to $work/out
    local n=$1 set=()
    shift
    while [ "$1" != -- ]; do set+=("$1"); shift; done
    shift
    # shellcheck disable=SC2086
    timeout 60 tests/mpirun.sh -n "$n" ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} env "${set[@]}" "$build/stridec" \
        run "$@" >"$work/out" 2>&1
}
shows() {   # EXPRESSION FILE...
    CHECK=$1 python3 tests/cli/trace.py "${@:2}" >>"$work/out" 2>&1
}

"${MPICC:-mpicc}" -o "$work/trace" tests/cli/trace.c >"$work/out" 2>&1
result "the program is compiled"

t=$work/t
ranks 2 -- --trace "$t" -- "$work/trace" messages && [ "$(cd "$t" && echo *)" = "0.json 1.json" ] &&
    shows 'names["MPI_Send"] == 20 and names["MPI_Isend"] == 5 and names["MPI_Waitall"] == 5 and names["MPI_Sendrecv"] == 1 and
        {e["args"]["type"] for e in calls if e["name"] == "MPI_Send"} == {"face \"z\"\\é?"} and
        {e["args"]["bytes"] for e in calls if e["name"] == "MPI_Send"} == {32768} and
        {e["args"]["peer"] for e in calls if e["name"] == "MPI_Send"} == {1} and
        all("protocol" in e["args"] for e in calls if e["name"] == "MPI_Send") and
        any(e["args"].get("type") == "s(4096,32,d(12))" for e in calls if e["name"] == "MPI_Isend") and
        {e["args"]["requests"] for e in calls if e["name"] == "MPI_Waitall"} == {2} and
        moves and not dropped' "$t/0.json"
result "the calls of a rank, their types, bytes and peers"
shows 'names["MPI_Recv"] == 20 and names["MPI_Irecv"] == 5 and "MPI_Send" not in names and
    {e["pid"] for e in events} == {1}' "$t/1.json"
result "the calls of the other rank"
"$build/stridec" trace "$t" -o "$work/job.json" >"$work/out" 2>&1 && grep -q 'job.json: 2 processes; ' "$work/out" &&
    shows 'names["MPI_Send"] == 20 and names["MPI_Recv"] == 20 and {e["pid"] for e in events} == {0, 1}' "$work/job.json"
result "stridec trace joins them"
"$build/stridec" trace "$t" -o /dev/stdout >"$work/piped.json" 2>"$work/out" && grep -q ': 2 processes; ' "$work/out" &&
    shows 'names["MPI_Send"] == 20' "$work/piped.json"
result "it writes nothing else into a file on standard output"
"$build/stridec" trace "$t" -o "$t/2_ranks.json" >"$work/out" 2>&1 &&
    "$build/stridec" trace "$t" -o "$t/2_ranks.json" >"$work/out" 2>&1 && grep -q ': 2 processes; ' "$work/out"
result "what it has written there is no timeline of a rank"
cp -r "$t" "$work/again" && ranks 1 -- --trace "$work/again" -- "$work/trace" packs &&
    "$build/stridec" trace "$work/again" -o "$work/again.json" >"$work/out" 2>&1 && grep -q ': 1 process; ' "$work/out" &&
    grep -q 'Left out: 1 file of another job, not of 1 rank[.]' "$work/out" && [ -e "$work/again/1.json" ] &&
    shows 'names["MPI_Pack"] and not names["MPI_Recv"]' "$work/again.json"
result "files of an earlier job with more ranks"
# Another node's clock, an hour apart and as much before the day's: its events come to where they were.
mkdir "$work/nodes" && cp "$t/0.json" "$work/nodes" && python3 - "$t/1.json" "$work/nodes/1.json" <<'PY' &&
import json, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
text = re.sub(r'"ts":(\d+)', lambda m: f'"ts":{int(m[1]) + 3600000000}', text)
text = re.sub(r'"clock":(\d+)', lambda m: f'"clock":{int(m[1]) - 3600000000000}', text)
open(sys.argv[2], "w", encoding="utf-8").write(re.sub('"node":"', '"node":"other', text))
PY
    "$build/stridec" trace "$work/nodes" -o "$work/nodes.json" >"$work/out" 2>&1 && grep -q aligned "$work/out" &&
    shows 'max(e["ts"] for e in spans) - min(e["ts"] for e in spans) < 60e6 and names["MPI_Recv"] == 20' "$work/nodes.json"
result "clocks of two nodes"
! "$build/stridec" trace "$work" -o "$work/none.json" >"$work/out" 2>&1 && grep -q 'holds no timeline' "$work/out" &&
    head -c 3000 "$t/0.json" >"$work/nodes/0.json" &&
    ! "$build/stridec" trace "$work/nodes" -o "$work/none.json" >"$work/out" 2>&1 &&
    grep -q 'no timeline of stridec, or not whole' "$work/out" && [ ! -e "$work/none.json" ]
result "no timeline, and half of one"

ranks 2 STRIDEC_HOST=auto -- --sim --trace "$work/gpu" -- "$build/examples/halo3d" 16 2 3 &&
    shows 'compiles and waits and moves and any(e["args"].get("launches") for e in moves) and
        len({e["tid"] for e in spans if e["pid"] == 0}) > 1' "$work"/gpu/?.json
result "kernels, compiles and waits of a program on the GPU"

ranks 1 STRIDEC_TRACE_MIB=1 -- --trace "$work/full" -- "$work/trace" packs &&
    grep -q 'warn: .*/full/0.json lacks the last [0-9]* events: STRIDEC_TRACE_MIB=1 was full' "$work/out" &&
    shows 'dropped > 0 and 10000 < len(spans) + len(moves) < 20000 and
        len(spans) + len(moves) + dropped >= 9000 * 2 and any("dropped" in str(e.get("args")) for e in events)' \
        "$work/full/0.json"
result "events that there is no room for are counted"
ranks 2 -- --trace "$work/abort" -- "$work/trace" abort
shows 'names["MPI_Send"] == 20 or names["MPI_Recv"] == 20' "$(find "$work/abort" -name '?.json' | head -1)"
result "a job that aborts"
ranks 2 -- --trace "$work/exit" -- "$work/trace" exit
shows 'names["MPI_Send"] == 20' "$work/exit/0.json"
result "a program that ends without MPI_Finalize"
# shellcheck disable=SC2086
timeout 20 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} "$build/stridec" run --trace "$work/within" -- \
    "$work/trace" within >"$work/out" 2>&1
result "a process that ends while it writes"
if command -v localedef >/dev/null; then
    printf '%s\n' LC_NUMERIC 'decimal_point ","' 'thousands_sep ""' 'grouping -1' 'END LC_NUMERIC' >"$work/comma.src"
    localedef -c -i "$work/comma.src" "$work/comma" 2>/dev/null
    ranks 2 LOCPATH="$work" LC_ALL=comma -- --trace "$work/comma.t" -- "$work/trace" messages &&
        shows 'any(0 < e["args"].get("GB/s", 0) for e in moves)' "$work/comma.t/0.json"
    result "numbers where they have a decimal comma"
else
    echo "NO localedef: numbers where they have a decimal comma"
fi
touch "$work/file" && ranks 1 -- --trace "$work/file/in" -- "$work/trace" packs &&
    grep -q 'STRIDEC_TRACE=.*/file/in: no timeline is recorded: Not a directory' "$work/out"
result "a folder that can't be made"

if "$build/stridec" run --help | grep -q "without NVTX's header"; then
    echo "NO NVTX header: ranges of a profiler"
else
    ranks 2 NVTX_INJECTION64_PATH="$build/tests/mpi/libranges.so" RANGES="$work/ranges" -- -- "$work/trace" messages &&
        cat "$work"/ranges.* >"$work/all" 2>"$work/out" && [ "$(grep -c '^stridec: MPI_Send face "z"' "$work/all")" = 20 ] &&
        [ "$(grep -c '^stridec: MPI_Recv face "z"' "$work/all")" = 20 ] &&
        [ "$(grep -c '^stridec: MPI_Waitall$' "$work/all")" = 10 ] &&
        [ "$(grep -c '^-$' "$work/all")" = "$(grep -c '^stridec: ' "$work/all")" ]
    result "ranges of a profiler"
fi
exit $failed
