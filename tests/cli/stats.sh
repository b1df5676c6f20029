#!/bin/bash
# stats.sh BUILD: what `stridec run --stats`, in its three forms, and --record tell: what was left to the MPI and why,
# the names that the program gives its types, and why a table is empty. Variables: MPICC; $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache
. tests/results.sh
# run OPTION... -- WHAT [NAME=VALUE...]: of two ranks.
run() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    local what=$2
    shift 2
    tests/mpirun.sh -n 2 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} env "$@" "$build/stridec" run "${options[@]}" -- \
        "$work/stats" "$what" >"$work/out" 2>&1
}
table() { run --stats=all -- "$@"; }
screen() { run --stats -- "$@"; }
json() { run --stats=json:"$work/stats.json" -- "$@"; }
has() {
    LC_ALL=C grep -aqE -- "$1" "$work/out"
}
python=$(for p in python3 /usr/bin/python3; do "$p" -c 'import jsonschema' 2>/dev/null && echo "$p" && break; done)
true_of() {   # TEST...: of what `json` wrote
    "${python:-python3}" tests/cli/stats_json.py runtime/api/stats.schema.json "$work/stats.json" "$@" >>"$work/out" \
        2>&1
}
fits() {   # one screen
    LC_ALL=C awk 'length > 102 { exit 1 } END { exit NR > 41 }' "$work/out"   # of bytes: a name here has 2 more
}

"${MPICC:-mpicc}" -o "$work/stats" -D_GNU_SOURCE tests/cli/stats.c -ldl >"$work/out" 2>&1
result "the program is compiled"

# Open MPI keeps such messages; MPICH's go by memory of the node.
why='nonblocking sends of such lengths and runs, which the MPI moves as quickly'
if strings "$work/stats" | grep -q ompi_; then left=1; else left=0; fi
table left && has '^stridec: 2 ranks, 1 datatype,' &&
    if [ $left = 1 ]; then
        has '^ +0 +0 strided +- ' && has "left to the MPI: [2-8] calls, [1-9][0-9]* bytes: $why"
    else
        has '^ +[1-8] +[1-9][0-9]* strided +(shared|zerocopy)'
    fi
result "what was left to the MPI, and why"
json left &&
    if [ $left = 1 ]; then
        true_of "d['left'][0]['why'] == '$why' and 2 <= d['left'][0]['calls'] <= 8" 'd["totals"]["left_bytes"] > 0' \
            'd["types"][0]["left"] == d["left"] and d["types"][0]["calls"] == 0'
    else
        true_of 'd["totals"]["calls"] > 0' 'sum(p["bytes"] for p in d["protocols"]) == d["totals"]["bytes"]'
    fi
result "what was left to the MPI, as JSON"

table kinds && has ' early and "freed" .*: s[(]1024,32,d[(]4[)][)]$' && has ' late: s[(]1024,32,d[(]8[)][)]$' &&
    has '  s[(]1024,32,d[(]12[)][)]$' && has '^ +vector[(]1024, 2, 8[)] of int$'
result "the names that the program gave its types"
screen kinds && fits && has ', 2 ranks on 1 host, ' && has '^  (shared|host|zerocopy) +[1-9].*%  ' &&
    has '  late: vector[(]1024, 2, 8[)] of int$' &&
    has '  vector[(]1024, 3, 8[)] of int$'
result "names and constructors on one screen"
json kinds && true_of 'len(d["types"]) == 3 and d["empty"] is None and d["ranks"] == 2 and d["hosts"] == 1' \
    '["late"] in [t["names"] for t in d["types"]] and [] in [t["names"] for t in d["types"]]' \
    "['early and \"freed\" \\\\ \\ufffdé'] in [t['names'] for t in d['types']]" \
    'all(t["extent"] == 1023 * 32 + t["size"] // 1024 for t in d["types"])' \
    'all(set(t["kernel"]) <= {"compiled", "cache"} and sum(w["bytes"] for w in t["ways"]) == t["bytes"] for t in d["types"])' \
    'sorted(p[:2] for p in d["pairs"]["bytes"]) == [[0, 1], [1, 0]] and d["pairs"]["ranks"] == 2' \
    'd["gpu"] == {"name": None, "copy_GB_s": None}' 'd["program"].endswith("/stats") and 0 < d["seconds"] < 300'
result "names as JSON, and bytes from rank to rank"
sent=$(sed -nE 's/.*\[0, 1, ([0-9]+)\].*/\1/p' "$work/stats.json")
[ $((${sent:-1} % 4096)) -eq 0 ] && [ "${sent:-0}" -le $((20 * 24 * 1024)) ]
result "no more bytes from rank to rank than were sent"
table kinds STRIDEC_TRANSPORT=staged && has '^ +[1-9][0-9]* +[1-9][0-9]* strided +host .* late: '
result "messages that are packed are counted"

if command -v localedef >/dev/null; then
    printf '%s\n' LC_NUMERIC 'decimal_point ","' 'thousands_sep ""' 'grouping -1' 'END LC_NUMERIC' >"$work/comma.src"
    localedef -c -i "$work/comma.src" "$work/comma" 2>/dev/null
    [ "$(LOCPATH=$work LC_ALL=comma bash -c 'printf %.1f 1,5' 2>&1)" = 1,5 ] &&
        json kinds LOCPATH="$work" LC_ALL=comma && true_of '0 < d["seconds"] < 300 and d["seconds"] % 1 > 0'
    result "JSON where numbers have a decimal comma"
else
    echo "NO localedef: JSON where numbers have a decimal comma"
fi
mkdir "$work/links" && ln -s ../linked.json "$work/links/stats.json" && echo old >"$work/linked.json" &&
    run --stats=json:"$work/links/stats.json" -- kinds && [ -L "$work/links/stats.json" ] &&
    grep -q '"format": 1' "$work/linked.json"
result "JSON through a link"
table communicators && if strings "$work/stats" | grep -q ompi_; then
    has 'nothing was counted'
else
    has 'error: no statistics and no spec .*: they need a communicator, and the MPI gives none: ' &&
        ! has 'nothing was counted'
fi
result "no communicator is left for the report"
if [ -z "${san:-}" ]; then   # its runtime has to be first
    table scarce LD_PRELOAD="$build/tests/mpi/libmemory.so" &&
        has 'warn: the statistics are not whole: a rank had no memory'
    result "no memory for what other ranks counted"
fi

empty='^ +nothing was counted: no derived type was '
table seldom && has "$empty" && has 'left to the MPI, uncounted: 6 derived types .* too seldom to be read$' &&
    screen seldom && has "$empty" && fits &&
    has ' uncounted +-  6 derived types in host memory, used too seldom to be read$'
result "types that were used too seldom"
table plain && has "$empty" && ! has 'left to the MPI, unc' &&
    screen plain && has "$empty" && ! has 'left to the MPI:' && json plain &&
    true_of 'd["empty"].startswith("no derived type was ") and d["left"] == []' \
    'd["types"] == d["protocols"] == d["pairs"]["bytes"] == []'
result "a program without derived types"
table kinds STRIDEC_DISABLE=1 && has '^ +nothing was counted: STRIDEC_DISABLE '
result "a library that is switched off"
table kinds STRIDEC_HOST=off && has '^ +nothing was counted: .*STRIDEC_HOST=off '
result "host memory that is left to the MPI"

run --stats=json:/nowhere/stats.json --record /nowhere/types.lua -- plain &&
    has 'error: the statistics can.t be written to /nowhere/stats.json: No such' &&
    has 'error: a spec of the types can.t be written to /nowhere/types.lua: No such'
result "files that can't be written"
run -- plain STRIDEC_STATS=some && has 'STRIDEC_STATS=some is not allowed and counts as 0 ' &&
    has 'allowed: 0, 1, all, json:FILE'
result "a form that there is not"

# Each constructor in words, and its layout as stridec reads it.
run --record "$work/types.lua" -- reads
record() {   # SIGNATURE WORDS [NAME]
    grep -E "^    \[\"${3:-t[0-9]+}\"\] = " "$work/types.lua" | grep -qF "= signature \"$1\",   -- $2"
}
cp "$work/types.lua" "$work/out" && record 's(3,28,s(4,8,d(4)))' 'contiguous(3) of vector(4, 1, 2) of int' &&
    record 's(1024,2048,d(8))' 'vector(1024, 1, 256) of double' a__column__of_it &&
    record 's(3,100,d(8))' 'hvector(3, 2, 100) of int' a__column__of_it_2 &&
    record 'q(d(8),d(20)@40,d(8)@80)' 'indexed(3 blocks of 2 to 5) of int' &&
    record 'd(8)@80' 'hindexed(1 block of 2) of float' &&
    record 's(3,40,d(8))' 'indexed_block(3 blocks of 2) of int' &&
    record 's(3,80,d(4))' 'hindexed_block(3 blocks of 1) of int' &&
    record 'q(d(16),d(20)@80,d(2)@160)' 'struct(2 double, 5 int, 2 char)' &&
    record 's(2,360,s(3,40,d(16)))@404' 'subarray 8x9x10 of float: 2x3x4' &&
    record 's(3,64,d(16))@72' 'subarray 8x9 of double: 2x3 (Fortran)' &&
    record 'd(144)' 'darray 8x9 of int: rank 0 of 2' && record 'd(144)@144' 'darray 8x9 of int: rank 1 of 2' &&
    record 's(4,8,d(4))' 'vector(4, 1, 2) of int resized to 128'
result "every constructor in words, in a spec of the run"
"$build/stridec" inspect "$work/types.lua" --signature >"$work/out" 2>&1 &&
    [ "$(wc -l <"$work/out")" -eq "$(grep -c ' = signature ' "$work/types.lua")" ]
result "inspect reads the spec"
exit $failed
