#!/bin/bash
# aot.sh BUILD: a program whose types `stridec gen` compiled ahead of time runs on those modules, and NVRTC is not
# called once; with a damaged module it says so and runs all the same. On the simulated GPU. $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
. tests/results.sh
unset SIMGPU_KEEP   # nothing that other tests have had compiled

sed 's/local n, radius = 256, 2/local n, radius = 16, 2/' spec/halo.lua >"$work/halo.lua"
LD_LIBRARY_PATH=$build/sim "$build/stridec" gen "$work/halo.lua" -o "$work/aot" --arch sm_90 >"$work/out" 2>&1
result "stridec gen compiles the halo's types"
mkdir "$work/links" && echo mine >"$work/victim" && ln -s ../victim "$work/links/manifest" &&
    LD_LIBRARY_PATH=$build/sim "$build/stridec" gen 'd(8)' -o "$work/links" --arch sm_90 >"$work/out" 2>&1 &&
    [ "$(cat "$work/victim")" = mine ] && [ ! -L "$work/links/manifest" ]
result "it writes through no link in its folder"

# halo NAME ROUNDS: runs the example with the modules, an empty cache, and a log of every compile.
folder=$work/aot
halo() {
    rm -rf "$work/cache.$1" "$work/compiles.$1"
    STRIDEC_AOT=$folder STRIDEC_CACHE_DIR=$work/cache.$1 SIMGPU_NVRTC_LOG=$work/compiles.$1 \
        tests/mpirun.sh -n 2 ${san:-} "$build/stridec" run --sim "${how:---stats=all}" -- \
        "$build/examples/halo3d" 16 2 "$2" >"$work/out" 2>&1
}
# longer NAME COMMAND...: runs it until the command sees what it wants. On a busy machine a short run is over before the
# first module is loaded.
longer() {
    local name=$1 rounds
    shift
    for rounds in 50 500 5000; do
        halo "$name" $rounds || return 1
        "$@" && return
    done
    return 1
}
hits() {
    awk '/calls +bytes/ { on = 1; next }
        on && $1 ~ /^[0-9]+$/ && $2 != "bytes:" { n++; if ($6 != 0 || $7 != 0) bad = 1; if ($8 > 0) hit++ }
        END { exit !(n == 52 && !bad && hit > 0) }' "$work/out"
}
longer whole hits
result "the statistics show the modules"
grep -qE '^ +[0-9]+ bytes: (zerocopy|device|oneshot|staged): .*(us|rule)' "$work/out"
result "the statistics tell which way messages took and why"
grep -q 'halo3d: verified' "$work/out" && [ ! -s "$work/compiles.whole" ]
result "no NVRTC call for types in the manifest"

# From a run to modules of its own: recorded, compiled, and served by them alone.
served() {   # each form of a type, on the screen
    awk '/ kernel +why +type/ { on = 1; next } !NF { on = 0 } on { n++; if ($0 !~ / ahead  +/) bad = 1 }
        END { exit !(n == 7 && !bad) }' "$work/out"
}
folder='' how=--record=$work/types.lua halo record 50 && grep -q 'halo3d: verified' "$work/out" &&
    [ "$(grep -c ' = signature "s(.* subarray 20x20x20 of float: ' "$work/types.lua")" -eq 52 ]
result "a run records its types"
printf 'list\ts(7,24,d(4))\n' >"$work/list"
LD_LIBRARY_PATH=$build/sim "$build/stridec" gen "$work/types.lua" "$work/list" 's(9,24,d(4))' -o "$work/own" \
    --arch sm_90 >"$work/out" 2>&1 && grep -q '54 types, 9 shapes' "$work/out"
result "stridec gen compiles what was recorded, and more"
folder=$work/own how=--stats longer own served && grep -q 'halo3d: verified' "$work/out" &&
    grep -q ' 16x subarray 20x20x20 of float: ' "$work/out" &&
    [ ! -s "$work/compiles.own" ]
result "the run is served by its own modules alone"
folder=$work/aot

# The kernels of an installation, beside its library: NVRTC makes none of those that serve all types.
mkdir "$work/installed" && cp "$build"/{libstridec.so,stridec,stridec-mpi} "$work/installed" &&
    LD_LIBRARY_PATH=$build/sim "$build/stridec" gen --common -o "$work/installed/kernels" --arch sm_90 >"$work/out" 2>&1
result "stridec gen --common"
installed() {   # ROUNDS VARIABLE=VALUE...
    rm -rf "$work/cache.installed" "$work/compiles.installed"
    tests/mpirun.sh -n 2 env LD_LIBRARY_PATH="$build/sim:$LD_LIBRARY_PATH" STRIDEC_LOG=debug SIMGPU_CARD=H200 "${@:2}" \
        STRIDEC_CACHE_DIR="$work/cache.installed" SIMGPU_NVRTC_LOG="$work/compiles.installed" ${san:-} \
        "$work/installed/stridec" run -- "$build/examples/halo3d" 16 2 "$1" >"$work/out" 2>&1 &&
        grep -q 'halo3d: verified' "$work/out"
}
compiles() {   # VARIABLE=VALUE: sets rounds
    for rounds in 50 500 5000; do
        installed $rounds "$1" || return 1
        [ ! -s "$work/compiles.installed" ] || return 0
    done
    return 1
}
compiles STRIDEC_AOT=none && installed $rounds && grep -q 'debug: links for sm_90' "$work/out" &&
    [ ! -s "$work/compiles.installed" ]
result "kernels beside the library serve all types, without NVRTC; not by STRIDEC_AOT=none"
compiles SIMGPU_CARD=A100
result "those of another GPU don't"

# An indexed type zero-copy: its kernel alone does not copy between the two ends.
indexed() {   # OPTION... of run, -- and those of the program
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    STRIDEC_CACHE_DIR=$work/cache.indexed tests/mpirun.sh -n 2 ${san:-} "$build/stridec" run --sim "${options[@]}" -- \
        "$build/bench/pingpong" --send --only 'irregular, 128 blocks' "${@:2}" "$work/indexed.json" >"$work/out" 2>&1
}
# The program has shorter-lived types, too, which may or may not be asked for.
indexed --record "$work/all.lua" -- --check &&
    sed -n '/^return/p; /indexed(128 blocks of /p; /^}/p' "$work/all.lua" >"$work/indexed.lua" &&
    LD_LIBRARY_PATH=$build/sim "$build/stridec" gen "$work/indexed.lua" -o "$work/indexed" --arch sm_90 >"$work/out" \
        2>&1 && STRIDEC_LOG=debug STRIDEC_AOT=$work/indexed indexed -- --quick &&
    grep -q 'debug: b(.* > b(.* for sm_90: ' "$work/out" &&
    form=$(sed -n 's/^\(b([^ ]*\)\t.*/\1/p' "$work/indexed/manifest") && [ -n "$form" ] &&
    ! grep -F "no module in STRIDEC_AOT=$work/indexed for sm_90: $form" "$work/out"
result "an indexed type is served ahead of time between its two ends"

cp -r "$work/aot" "$work/aot.80" && sed -i 's/\tsm_90\t/\tsm_80\t/' "$work/aot.80/manifest"
other() {
    [ "$(grep -c "warn: STRIDEC_AOT=$folder has modules for sm_80, this GPU is sm_90: they are not used" "$work/out")" -eq 2 ] &&
        grep -q "info: no module in STRIDEC_AOT=$folder for sm_90: generic" "$work/out" &&
        grep -q "info: no module in STRIDEC_AOT=$folder for sm_90: s(" "$work/out"
}
folder=$work/aot.80
STRIDEC_LOG=info longer other other && grep -q 'halo3d: verified' "$work/out"
result "modules of another architecture: each rank says so once, and names the types at info level"
folder=$work/aot

for f in "$work"/aot/*.cubin; do printf x | dd of="$f" bs=1 seek=200 conv=notrunc 2>/dev/null; done
longer damaged [ -s "$work/compiles.damaged" ] && grep -q 'halo3d: verified' "$work/out" && grep -q 'stridec\[.*warn' "$work/out"
result "damaged modules are warned of and compiled anew"

# What is kept beside the simulated NVRTC needs no compiler (packaging/wheel.sh).
mkdir -p "$work/sim/kernels" && cp "$build"/sim/lib*.so.* "$work/sim"
kept() { LD_LIBRARY_PATH=$work/sim "$build/stridec" gen "$work/halo.lua" -o "$work/$1" --arch sm_90 >"$work/out" 2>&1; }
! SIMGPU_CXX=/nowhere kept none && SIMGPU_KEEP=$work/sim/kernels kept first && SIMGPU_CXX=/nowhere kept second &&
    diff -r "$work/first" "$work/second" >>"$work/out"
result "kernels kept beside the simulated NVRTC"

# Data in host memory: a type of bench/cpu_pack, code for it ahead of time, and no compiler.
echo 'return { lu = vector(1638, 5, 90, double) }' >"$work/lu.lua"
host() {   # NAME: what the library says
    STRIDEC_AOT=$work/host STRIDEC_CACHE_DIR=$work/cache.host STRIDEC_CC=/nowhere STRIDEC_LOG=debug \
        tests/mpirun.sh -n 1 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} "$build/stridec" run --stats -- "$build/bench/cpu_pack" \
        --only NAS_LU_y --least 65536 --most 65536 --ms 1 "$work/lu.json" >"$work/out" 2>&1
}
"$build/stridec" gen "$work/lu.lua" -o "$work/host" --target host >"$work/out" 2>&1 && host &&
    grep -q 'in host memory: made ahead of time' "$work/out" && grep -q '1 cases, 0 wrong' "$work/out" &&
    grep -qE ' ahead  +.*vector[(]1638, 5, 90[)] of double$' "$work/out"
result "code for the host made ahead of time is used without a compiler"
for f in "$work"/host/*.so; do printf x | dd of="$f" bs=1 seek=200 conv=notrunc 2>/dev/null; done
host && grep -q 'is damaged' "$work/out" && grep -q 'without code of its own' "$work/out" && grep -q ', 0 wrong' "$work/out"
result "a damaged library is not used"
exit $failed
