#!/bin/bash
# aot.sh BUILD: a program whose types `stridec gen` compiled ahead of time runs on those modules, and NVRTC is not
# called once; with a damaged module it says so and runs all the same. On the simulated GPU. $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
result() {   # NAME, after a command
    if [ $? -eq 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; sed 's/^/    /' "$work/out" | tail -15; fi
}

sed 's/local n, radius = 256, 2/local n, radius = 16, 2/' spec/halo.lua >"$work/halo.lua"
LD_LIBRARY_PATH=$build/sim "$build/stridec" gen "$work/halo.lua" -o "$work/aot" --arch sm_90 >"$work/out" 2>&1
result "stridec gen compiles the halo's types"

# halo NAME: runs the example with the modules, an empty cache, and a log of every compile.
halo() {
    STRIDEC_AOT=$work/aot STRIDEC_CACHE_DIR=$work/cache.$1 SIMGPU_NVRTC_LOG=$work/compiles.$1 \
        tests/mpirun.sh -n 2 ${san:-} "$build/stridec" run --sim --stats -- "$build/examples/halo3d" 16 2 50 >"$work/out" 2>&1
}
halo whole && grep -q 'halo3d: verified' "$work/out" && [ ! -s "$work/compiles.whole" ]
result "no NVRTC call for types in the manifest"
awk '/calls +bytes/ { on = 1; next } on && $4 { n++; if ($6 != 0) bad = 1; if ($7 > 0) hit++ } END { exit !(n == 52 && !bad && hit > 0) }' "$work/out"
result "the statistics show the modules"

for f in "$work"/aot/*.cubin; do printf x | dd of="$f" bs=1 seek=200 conv=notrunc 2>/dev/null; done
halo damaged && grep -q 'halo3d: verified' "$work/out" && grep -q 'stridec\[.*warn' "$work/out" && [ -s "$work/compiles.damaged" ]
result "damaged modules are warned of and compiled anew"
exit $failed
