#!/usr/bin/env bash
# cli.sh STRIDEC: checks what the command prints, writes and returns. One line a check, "ok NAME" or
# "not ok NAME"; exits 1 if any is not. Needs NVRTC (SKIP where there is none), no GPU.
set -u
stridec=$(readlink -f "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache
export COLUMNS=400   # what is looked for stands on one line
unset LD_PRELOAD STRIDEC_STATS STRIDEC_TUNE
. tests/results.sh

# returns STATUS STREAM PATTERN ARGUMENT...: stridec ends so, and the stream (out, err) holds the pattern.
returns() {
    local status=$1 stream=$2 pattern=$3 got
    shift 3
    "$stridec" "$@" >"$work/out" 2>"$work/err"
    got=$?
    cat "$work/out" "$work/err"
    [ "$got" -eq "$status" ] || { echo "status $got, expected $status"; return 1; }
    grep -qE -- "$pattern" "$work/$stream"
}

# ---- usage ----
check "help tells the exit statuses" returns 0 out '^  127  run: there is no such program' --help
check "help of a command tells its own" returns 0 out '^  1    something is bad: ' help doctor
# Nothing is wider than the terminal; where there is none, than 80 columns. A word may be.
fits() {   # COLUMNS ARGUMENT...
    local most=$1
    shift
    COLUMNS=$most "$stridec" "$@" >"$work/out" || return 1
    awk -v most="$most" 'length > most && split($0, word, " ") > 3 { print; wide = 1 } END { exit wide }' "$work/out"
}
for command in --help 'run --help' 'inspect --help' 'gen --help' 'tune --help' 'doctor --help' doctor; do
    check "$command in 60 columns" fits 60 $command
    check "$command in 80 columns" fits 80 $command
done
widest() { env -u COLUMNS "$stridec" "$@" | awk 'length > most { most = length } END { print most; exit most > 80 || most < 70 }'; }
check "80 columns where there is no terminal" widest inspect --help
check "help lists the commands" returns 0 out 'stridec inspect SPEC' --help
check "help tells of host memory" returns 0 out 'packs data in host memory' --help
check "help of what is checked" returns 0 out 'NVRTC, C compiler, MPI' doctor --help
check "help of a command" returns 0 out '--signature' inspect --help
check "help of signatures" returns 0 out "'s[(]100,4096,d[(]400[)][)]@16'" inspect --help
check "what they are of is read" returns 0 out '[)]@16$' inspect --signature 's(2,32,q(i(d(1);0,5,7),d(2)@12))@16'
check "help after -- is the program's" returns 127 err 'no-such-program' run -- no-such-program --help
check "help of no command" returns 2 err "no command 'frob'" help frob
check "help of two" returns 2 err 'unexpected gen' help run gen
check "the version" returns 0 out "^stridec $(cat "$root/VERSION")\$" --version
check "the version of more" returns 2 err 'unexpected run' --version run
check "no command" returns 2 err 'which command'
check "unknown command" returns 2 err "no command 'frob'\$" frob
check "a mistyped command" returns 2 err "no command 'inpsect': did you mean 'inspect'[?]" inpsect
check "no such option of all" returns 2 err "unknown option '--verison': did you mean '--version'[?]" --verison
check "a mistyped option" returns 2 err 'unknown option --signatrue: did you mean --signature[?]' inspect --signatrue
# Of every subcommand, by what its help lists.
for command in run inspect gen report tune trace doctor; do
    for ask in "help $command" "--help $command" "$command --help" "$command -h"; do
        check "$ask" returns 0 out "^usage: stridec $command " $ask
    done
    check "the exit statuses of $command" returns 0 out '^  2    wrong command, option or value' help $command
    check "an unknown option of $command" returns 2 err '^stridec [a-z]+: unknown option --frob$' $command --frob
    check "which shows how it is used" grep -q "^usage: stridec $command " "$work/err"
    "$stridec" $command --help >"$work/help"
    for name in $(sed -nE 's/^  (--?[a-z-]+) [A-Za-z_,.]+  .*/\1/p' "$work/help"); do
        check "$name of $command without a value" returns 2 err "$name needs a value: $name [A-Zs]" $command $name
        check "$name of $command before an option" returns 2 err "$name needs a value" $command $name --help
        check "$name of $command twice" returns 2 err "$name is given twice" $command $name x $name y
    done
    for name in $(sed -nE 's/^  (--[a-z-]+)  +[^ ].*/\1/p' "$work/help" | grep -v help); do
        check "$name of $command with a value" returns 2 err "$name takes no value" $command $name=1
    done
done
check "a value behind =" returns 2 err "'9'" inspect --arch=9 'd(8)'
check "no options behind --" returns 1 err '^stridec inspect: --cache: No such file' inspect -- --cache
check "inspect without a spec" returns 2 err 'which spec' inspect
check "gen without a folder" returns 2 err '-o DIR' gen "$root/spec/tempi.lua"
check "gen with a bad architecture" returns 2 err "'90'" gen "$root/spec/tempi.lua" -o "$work/x" --arch 90
check "a full disk is noticed" bash -c '! "$0" --help >/dev/full 2>/dev/null' "$stridec"

# ---- inspect ----
one_signature() {   # of all types whose names begin with $1
    "$stridec" inspect --signature "$root/spec/tempi.lua" >"$work/signatures" || return 1
    grep "^$1_" "$work/signatures"
    [ "$(grep "^$1_" "$work/signatures" | cut -f2 | sort -u | wc -l)" -eq 1 ]
}
for kind in row plane cuboid; do
    check "equivalent ${kind}s have one signature" one_signature $kind
done
names_match() {
    [ "$("$stridec" inspect --signature "$root/spec/tempi.lua" row_hvector)" = $'row_hvector\td(400)' ]
}
check "a name's signature" names_match
check "an unknown name" returns 1 err "no type 'nil_'\$" inspect "$root/spec/tempi.lua" nil_
check "a mistyped name" returns 1 err "no type 'row_hvecotr': did you mean 'row_hvector'[?]" inspect "$root/spec/tempi.lua" row_hvecotr
check "a mistyped name of tune" returns 1 err "no type 'row_hvecotr': did you mean 'row_hvector'[?]" \
    tune --show "$root/spec/tempi.lua:row_hvecotr" 3
echo 'return { a = vector(2, 1, 3, flaot) }' >"$work/flaot.lua"
check "a mistyped type in a spec" returns 1 err 'flaot.lua:1: there is no `flaot`: did you mean `float`[?]' inspect "$work/flaot.lua"
check "a missing spec" returns 1 err "^stridec inspect: $work/gone.lua: No such file or directory\$" inspect "$work/gone.lua"
check "a missing spec for gen" returns 1 err "^stridec gen: $work/gone.lua: No such file" gen "$work/gone.lua" -o "$work/x"
check "a folder for a spec" returns 1 err "^stridec inspect: $work: Is a directory\$" inspect "$work"
check "an empty name for a spec" returns 1 err "^stridec inspect: '': No such file" inspect ''
check "trees and plan in words" returns 0 out 'extent: 524288 B' inspect "$root/spec/tempi.lua" plane_subarray_float
check "which rules fired" returns 0 out 'became one block: 100 copies of 4 B, 400 B together' \
    inspect "$root/spec/tempi.lua" plane_subarray_float
check "what limits it" returns 0 out '^    limit: ' inspect "$root/spec/tempi.lua" plane_subarray_float
check "the source" returns 0 out 'stridec_pack_w' inspect --source "$root/spec/faces.lua" face_yz
check "the source for the host" returns 0 out 'void stridec_host_unpack' inspect --target host --source \
    "$root/spec/faces.lua" face_yz
check "a signature in place of a spec" returns 0 out 'blocks of 12 B: 2 moves' inspect --target host 's(3,16,d(12))'
check "a signature that is none" returns 1 err '[)] expected at byte 12' inspect 's(3,16,d(12)'
if command -v cc gcc clang >/dev/null; then
    check "the assembly" returns 0 out 'stridec_host_pack:' inspect --target host --asm 's(3,16,d(12))'
    check "code for the host ahead of time" returns 0 out '7 shapes for data in host memory' \
        gen --target host "$root/spec/halo.lua" -o "$work/host"
    check "its manifest" grep -qE $'^s\\(.*\thost-[0-9a-f]{16}\t[0-9a-f]{16}[.]host-[0-9a-f]{16}[.]so\t' "$work/host/manifest"
fi
amd='__builtin_amdgcn_s_barrier'
check "the source for an AMD GPU" returns 0 out "$amd" inspect --target hip --source "$root/spec/faces.lua" face_yz
check "the source for an AMD GPU by its architecture" returns 0 out "$amd" inspect --arch gfx90a --source \
    "$root/spec/faces.lua" face_yz
check "sources for AMD GPUs" returns 0 out '7 shapes and the generic kernel as HIP sources' \
    gen --arch gfx90a,gfx1100 "$root/spec/halo.lua" -o "$work/hip"
check "a source for each shape, for all types and for links" \
    [ "$(grep -lF "$amd" "$work"/hip/*.hip | wc -l) $(ls "$work/hip" | wc -l)" = "9 9" ]
check "machine code for an AMD GPU" returns 2 err '[-]-sass is not of --target hip' inspect --arch gfx90a --sass \
    "$root/spec/faces.lua"
check "an AMD architecture for CUDA" returns 2 err '[-]-arch gfx90a is of --target hip' \
    inspect --arch gfx90a --target cuda "$root/spec/faces.lua"
check "gen for CUDA with an AMD architecture" returns 2 err '[-]-arch gfx90a is of --target hip' \
    gen "$root/spec/tempi.lua" -o "$work/x" --target cuda --arch gfx90a
check "gen for AMD GPUs with another architecture" returns 2 err '[-]-arch sm_90 is of --target cuda' \
    gen "$root/spec/tempi.lua" -o "$work/x" --target hip --arch sm_90
check "a view of another target" returns 2 err 'not of --target cuda' inspect --asm "$root/spec/faces.lua"
check "an architecture for the host" returns 2 err '[-]-arch sm_90 is of --target cuda' \
    inspect --arch sm_90 --target host "$root/spec/faces.lua"
check "gen for the host with an architecture" returns 2 err '[-]-arch sm_90 is of --target cuda' \
    gen "$root/spec/tempi.lua" -o "$work/x" --target host --arch sm_90
check "the cache of an architecture" returns 2 err '[-]-cache stands alone' inspect --cache --arch sm_90
check "an unknown target" returns 2 err 'cuda, hip or host' inspect --target tpu "$root/spec/faces.lua"
check "gen with an unknown target" returns 2 err "'tpu'" gen "$root/spec/tempi.lua" -o "$work/x" --target host,tpu
check "two views at once" returns 2 err 'at once' inspect --source --ptx "$root/spec/faces.lua"
for spec in halo faces; do
    check "$spec.lua loads" returns 0 out . inspect --signature "$root/spec/$spec.lua"
done
halo_has_26() {
    [ "$("$stridec" inspect --signature "$root/spec/halo.lua" | grep -c '^send_')" -eq 26 ]
}
check "a halo has 26 parts" halo_has_26
cat >"$work/bad.lua" <<'EOF'
return {
    a = contiguous(-1, int),
}
EOF
check "a malformed spec names file and line" returns 1 err 'bad\.lua:2: contiguous: count' inspect "$work/bad.lua"
cat >"$work/mixed.lua" <<'EOF'
return {
    empty = contiguous(0, int),
    irregular = hindexed({1, 2, 1}, {0, 16, 100}, int),
    fields = struct({1, 1, 1}, {0, 8, 16}, {double, int, char}),
    apart = resized(0, 64, contiguous(4, int)),
    same = vector(1, 4, 9, int),
}
EOF
cat >"$work/long.lua" <<'EOF'
local at, length = {}, {}
for i = 1, 32768 do at[i], length[i] = 20 * i + i * i % 7, 1 + i % 5 end
local block = resized(0, 12, contiguous(3, int))
local even = {}
for i = 1, 64 do even[i] = 512 * i end
return { uneven = indexed(length, at, block), even = hindexed_block(1, even, double) }
EOF
even_list() {
    returns 0 out 'the first offset of an index moved to its root: 512 B' inspect "$work/long.lua" even &&
        grep -q 'an index with even spacing became a stride: 64 offsets, step 512 B' "$work/out"
}
check "an even list in words" even_list
long_list() {
    returns 0 out '32768 entries, 32768 runs' inspect "$work/long.lua" uneven &&
        grep -qE '^  signature: .{240}\.\.\. \([0-9]+ bytes more\)$' "$work/out" && [ "$(wc -l <"$work/out")" -lt 120 ]
}
check "a long list in few words" long_list
check "a type of a few parts" returns 0 out 'family: struct' inspect "$work/mixed.lua" irregular
squares=$(for i in {1..60}; do printf ', %d' $((8 * i * i)); done)
echo "return { squares = hindexed_block(1, {0$squares}, double) }" >"$work/list.lua"
check "a list's bytes in words" returns 0 out 'an offset takes 2 B and 4 B for every 64' inspect "$work/list.lua" squares
check "a list's code in the source" returns 0 out '#4:2\*8\)' inspect --source "$work/list.lua" squares
check "an empty type" returns 0 out 'none, the type is empty' inspect "$work/mixed.lua" empty
check "an absent cache" returns 1 err 'cache folder' inspect --cache
# Modules with these keys, as runtime/kernel/module_cache.c has them, in a cache of their own.
forge() {
    python3 - "$work/forged" "$@" <<'PY'
import ctypes, os, struct, sys
hash64 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
hash64.restype, hash64.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
os.makedirs(sys.argv[1])
for i, key in enumerate(sys.argv[2:]):
    text = b"stridec cache 1\n" + struct.pack("<QQ", len(key), i + 1) + key.encode() + b"." * (i + 1)
    with open(f"{sys.argv[1]}/{i}.{'so' if key.startswith('host') else 'cubin'}", "wb") as f:
        f.write(text + struct.pack("<Q", hash64(text, len(text))))
open(sys.argv[1] + "/a.cubin", "w").close()
PY
}
version=$(awk -F'\t' 'NR == 2 { print $5 }' "$work/host/manifest" 2>/dev/null)
cached() {
    STRIDEC_CACHE_DIR=$work/forged returns 0 out "^4 modules, 6 B in $work/forged\$" inspect --cache &&
        [ "$(awk '{ print $1, $2, $3, $4, $5 }' "$work/out")" = "for bytes stridec file type,
host-01 2 this 1.so s(2,8,d(4))
sm_90 3 this 2.cubin d(8)
sm_90 1 another 0.cubin d(4)
- 0 damaged a.cubin 
4 modules, 6 B in
1 of another version of
1 damaged: made anew when" ]
}
if [ -n "$version" ] && forge 'sm_90 0 d(4) nvrtc-13.0' "host-01 $version s(2,8,d(4)) cc-1" "sm_90 $version d(8) nvrtc-13.0"; then
    check "the cache in order, with what is of another version" cached
else
    echo "ok the cache in order # SKIP no C compiler, or no libxxhash.so.0"
fi

# ---- what needs NVRTC ----
if "$stridec" inspect --ptx "$root/spec/faces.lua" face_yz --arch sm_90 >"$work/ptx" 2>"$work/err"; then
    check "PTX" grep -q 'entry stridec_pack_w' "$work/ptx"
    check "gen" returns 0 out 'manifest: 5 types' gen "$work/mixed.lua" -o "$work/new/aot" --arch sm_80,sm_90,sm_80
    printf '# two\na\ts(7,24,d(4))\n\ns(5,24,d(4))\n' >"$work/list"
    check "gen of a spec, a list of signatures and a signature" returns 0 out 'all/manifest: 8 types, 6 shapes' \
        gen "$work/mixed.lua" "$work/list" 's(9,24,d(4))' -o "$work/all" --arch sm_90
    check "gen of a bad list" returns 1 err '[/0-9]:2: signature: ' \
        gen "$work/mixed.lua" <(echo 'd(4)'; echo 'd(4') -o "$work/never" --arch sm_90
    manifest=$work/new/aot/manifest
    check "the manifest's first line" grep -qx 'stridec manifest 2' <(head -n 1 "$manifest")
    lines() {   # generic, links, three forms and pairs of two, each for two architectures
        cat "$manifest"
        [ "$(wc -l <"$manifest")" -eq 15 ] && [ "$(cut -f1 "$manifest" | sort -u | wc -l)" -eq 8 ] &&
            awk -F'\t' 'NR > 1 && NF != 5 { exit 1 }' "$manifest"
    }
    check "one line a shape and architecture" lines
    files_are_there() {
        local file
        for file in $(tail -n +2 "$manifest" | cut -f3); do
            [ -s "$work/new/aot/$file" ] && [ -s "$work/new/aot/${file%.cubin}.cu" ] || return 1
        done
        [ "$(ls "$work/new/aot" | wc -l)" -eq 29 ]   # no temporary file is left
    }
    check "the manifest's files are there" files_are_there
    all_usual() {   # what the generic kernel is there for
        returns 0 out ' for sm_[0-9, sm_]*sm_80, sm_86, .* [(]no GPU here: the usual ones; ' gen "$work/nothing.lua" -o "$work/usual" &&
            [ "$(sed -n 's/^generic.\(sm_[0-9]*\).*/\1/p' "$work/usual/manifest" | paste -sd' ')" = \
              "$(sed 's/.* for \(.*\) (no.*/\1/; s/,//g' "$work/out")" ]
    }
    echo 'return { empty = contiguous(0, int) }' >"$work/nothing.lua"
    if "$stridec" doctor | grep -q '^ok *gpu 0'; then
        check "gen for the GPUs here" returns 0 out '[(]of the GPUs here[)]' gen "$work/nothing.lua" -o "$work/usual"
    else
        check "gen without a GPU makes the usual architectures and names them" all_usual
    fi
    again() {
        cp "$manifest" "$work/first" && "$stridec" gen "$work/mixed.lua" -o "$work/new/aot" --arch sm_80,sm_90 &&
            cmp "$work/first" "$manifest"
    }
    check "gen twice writes the same" again
    touch "$work/plain"
    check "gen into a file" returns 1 err "plain/x' can't be made: Not a directory" gen "$work/mixed.lua" -o "$work/plain/x" --arch sm_90
    check "gen into a file itself" returns 1 err "plain' can't be made: Not a directory" gen "$work/mixed.lua" -o "$work/plain" --arch sm_90
    check "gen into no folder" returns 1 err "'' can't be made" gen "$work/mixed.lua" -o '' --arch sm_90
    check "gen of a malformed spec" returns 1 err 'bad\.lua:2' gen "$work/bad.lua" -o "$work/never"
    check "gen of a malformed spec makes nothing" test ! -e "$work/never"
    not_for_11='NVRTC [0-9.]+ [(].*libnvrtc.*[)] does not compile for sm_11; it does for sm_[0-9]+, .*[0-9]$'
    check "gen for an unknown architecture" returns 1 err "generic kernel: $not_for_11" \
        gen "$work/mixed.lua" -o "$work/a" --arch sm_11
    check "PTX for an unknown architecture" returns 1 err "$not_for_11" inspect --ptx 'd(8)' --arch sm_11
    check "no manifest after a failure" test ! -e "$work/a/manifest"
    if "$stridec" inspect --sass "$root/spec/faces.lua" face_yz --arch sm_90 >"$work/sass" 2>"$work/err"; then
        check "machine code" grep -q 'EXIT' "$work/sass"
    else
        check "machine code, or what is missing" grep -q 'nvdisasm' "$work/err"
    fi
else
    echo "ok # SKIP no NVRTC: $(head -n 1 "$work/err")"
fi

# ---- run ----
environment_has() {   # environment_has PATTERN ARGUMENT...: of `env` run so
    local pattern=$1
    shift
    "$stridec" run "$@" env >"$work/env" 2>"$work/err"
    grep -E 'LD_|STRIDEC' "$work/env"
    cat "$work/err"
    grep -qE -- "$pattern" "$work/env"
}
library=$(dirname "$stridec")/libstridec.so
[ -e "$library" ] || library=$(readlink -f "$(dirname "$stridec")/../lib/libstridec.so")
asan=$(ldd "$library" "$stridec" | awk '/libasan/ { print $3; exit }')
if [ -n "$asan" ]; then
    export LD_PRELOAD=$asan ASAN_OPTIONS=detect_leaks=0
    check "the sanitizer stays first" environment_has "^LD_PRELOAD=$asan:$library\$" --
else
    check "the library is preloaded" environment_has "^LD_PRELOAD=$library\$" --
    with_others() { LD_PRELOAD=libm.so.6 environment_has "^LD_PRELOAD=$library:libm.so.6\$" --; }
    check "other preloads are kept" with_others
    twice() { LD_PRELOAD=$library environment_has "^LD_PRELOAD=$library\$" --; }
    check "it is preloaded once" twice
    like() { LD_PRELOAD=$work/libm.so:$library.old environment_has "^LD_PRELOAD=$library:$work/libm.so:$library.old\$" --; }
    check "a library whose name begins like it is another" like
    # What each thread has of its own is little: else there would be no room for it.
    check "it can be loaded by dlopen" python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$library"
fi
loads_no_mpi() { ! ldd "$stridec" | grep -E 'libmpi|libcuda|libnvrtc'; }
check "what starts programs loads no MPI" loads_no_mpi
check "statistics" environment_has '^STRIDEC_STATS=1$' --stats --
check "all statistics" environment_has '^STRIDEC_STATS=all$' --stats=all --
check "statistics as JSON" environment_has '^STRIDEC_STATS=json:a b$' "--stats=json:a b" --
for how in some json: json ''; do
    check "statistics of the form '$how'" returns 2 err "^stridec run: --stats=$how: it is " run --stats=$how -- true
done
check "a record of the types" environment_has '^STRIDEC_RECORD=types[.]lua$' --record types.lua --
no_stats() { ! environment_has '^STRIDEC_' -- || [ "$(grep -c '^STRIDEC_' "$work/env")" -eq 1 ]; }
check "no statistics unless asked" no_stats   # STRIDEC_CACHE_DIR is this script's
check "the program's status is the command's" returns 7 out '^a b$' run -- sh -c 'echo "$1 $2"; exit 7' sh a b
for ended in '' --; do
    check "options after the program are its own${ended:+, $ended}" returns 0 out '^--stats -h --help -- 32$' \
        run $ended printf '%s %s %s %s %s\n' --stats -h --help -- 32
done
check "no such program" returns 127 err 'no-such-program: No such file' run -- no-such-program
check "a folder for a program" returns 126 err "$work: Is a directory" run "$work"
check "a program that is no program" returns 126 err 'Permission denied' run -- "$work/bad.lua"
check "no program" returns 2 err 'which program' run --stats --
check "unknown option of run" returns 2 err 'unknown option --simm: did you mean --sim[?]' run --simm -- true
if [ -e "$(dirname "$library")/sim/libcuda.so.1" ] || [ -e "$(dirname "$library")/stridec/sim/libcuda.so.1" ]; then
    check "the simulated GPU's folder" environment_has '^LD_LIBRARY_PATH=[^:]*/sim(:|$)' --sim --
    check "doctor sees the simulated GPU" returns 0 out '^ok +gpu 0' run --sim -- "$stridec" doctor
else
    check "no simulated GPU" returns 1 err 'not built' run --sim -- true
fi

# ---- doctor, tune ----
check "doctor tells of the MPI" returns 0 out '^ok +mpi' doctor
no_aware() { returns 0 out '^ok +cuda-aware +(no|it does not say)' run --sim -- "$stridec" doctor; }
if ompi_info --parsable --all 2>/dev/null | grep -q mpi_built_with_cuda_support:value:true; then
    echo "ok doctor asks the MPI itself # SKIP it is CUDA-aware"
else
    check "doctor asks the MPI itself" no_aware
fi
no_compiler() { STRIDEC_CC=/nothing returns 0 out '^warn +compiler +STRIDEC_CC=/nothing' doctor; }
check "doctor finds no compiler" no_compiler
check "doctor lists the calls" returns 0 out '^MPI_Send +accelerated +[a-z]' doctor --calls
check "doctor takes one program" returns 2 err 'unexpected -x: one program' doctor true -- -x
check "doctor lists the calls alone" returns 2 err '[-]-calls stands alone' doctor --calls --json
check "doctor tells the version" returns 0 out "^ok +stridec +$(cat "$root/VERSION"), generator " doctor
unreadable() { STRIDEC_TUNE=$work/gone returns 1 out '^bad +tuned table.*gone' doctor; }
check "doctor finds a missing table" unreadable
unwritable() { STRIDEC_CACHE_DIR=/proc/none/cache returns 0 out '^warn +cache .*every process compiles anew' doctor; }
check "doctor finds an unwritable cache" unwritable
check "tune with a word" returns 2 err "unexpected table: a table is written to -o FILE" tune --host table
check "tune in no time" returns 2 err '[-]-seconds 0: it is a number of seconds' tune --seconds 0
check "tune in a time that is none" returns 2 err '[-]-seconds 5s: it is a number of seconds' tune --seconds 5s
check "tune that shows in a time" returns 2 err '[-]-show measures nothing: it does not go with --seconds' tune --show --seconds 3
check "tune that measures and shows" returns 2 err '[-]-show measures nothing: it does not go with --host' tune --show --host
check "tune of host memory with what is of GPUs" returns 2 err '[-]-pipeline does not go with --host' tune --host --pipeline
open_to_all() { mkdir "$work/open" && chmod 777 "$work/open" && STRIDEC_CACHE_DIR=$work/open returns 0 out '^warn +cache.*others may write' doctor; }
check "doctor finds a cache that others may write to" open_to_all
# show_says PATTERN... -- ARGUMENT...: `tune --show` succeeds, without a GPU, and a line matches each.
show_says() {
    local patterns=() pattern
    while [ "$1" != -- ]; do patterns+=("$1"); shift; done
    shift
    LD_LIBRARY_PATH='' "$stridec" tune --show "$@" >"$work/shown" 2>"$work/show.err" || return 1
    cat "$work/shown"
    for pattern in "${patterns[@]}"; do grep -qE -- "$pattern" "$work/shown" || { echo "no line: $pattern"; return 1; }; done
}
{
    printf 'stridec tune 1\nmachine A\nmpi any\n'
    for curve in pack_mapped unpack_mapped message_host; do printf 'curve %s\nbytes 1024 65536\nany 10 10\n' $curve; done
    for curve in pack_staged unpack_staged; do printf 'curve %s\nbytes 1024 65536\nany 20 20\n' $curve; done
    printf 'curve zerocopy\nbytes 1024 65536\nblock 8 90 9\n'
} >"$work/own"
XDG_CONFIG_HOME=$work/none check "show without a table of one's own" show_says '^s\(100,64,d\(8\)\) x 2: 1600 bytes in blocks of 8$' \
    'on the node, .*: +zerocopy: the rule' 'elsewhere, .*: +[a-z]*: .* us by built-in figures, for an H200$' -- 's(100,64,d(8))' 2
check "show tells whose the built-in figures are" show_says '^by built-in figures, for an H200:$' --
check "show by a table's figures" show_says 'on the node, .*: +oneshot: 30.0 us, zerocopy 90.0 by' \
    'elsewhere, .*: +oneshot: 30.0 us by' 'on the node, .*: +zerocopy: 9.0 us, oneshot 30.0 by' \
    'on the node, .*: +zerocopy: the rule' -- "$work/own" 's(128,64,d(8))' 1 's(128,64,d(8))' 64 's(128,64,d(8))' 65
check "show below the shortest offer" show_says 'on the node, .*: +oneshot: 30.0 us by' -- "$work/own" 's(2,64,d(8))' 1
check "show of a spec's type" show_says '^row_hvector x 3: 1200 bytes in blocks of 1200$' -- "$root/spec/tempi.lua:row_hvector" 3
many() { show_says '^row_hvector x 1:' '^cuboid_.* x 1:' -- "$root/spec/tempi.lua" 1; }
check "show of a spec's types" many
check "show of the table that programs use" env STRIDEC_TUNE="$work/own" "$stridec" tune --show 'd(8)' 9
check "show of no type" returns 1 err "gone is no signature, and no spec" tune --show gone 3
check "show of no count" returns 2 err '0 is no count of d\(8\)' tune --show 'd(8)' 0
check "show of a count below zero" returns 2 err '-3 is no count of d' tune --show 'd(8)' -3
check "show of a folder" returns 1 err "$work: it is no regular file" tune --show "$work"
lacks_count() { local type=$1; shift; returns 2 err "A COUNT is missing: stridec tune --show '$type' 1\$" tune --show "$@"; }
check "show of a signature without a count" lacks_count 'd[(]8[)]' 'd(8)'
check "show of a spec without a count" lacks_count "$root/spec/tempi.lua:row_hvector" "$root/spec/tempi.lua:row_hvector"
check "show of a second type without a count" lacks_count 'd[(]4[)]' 'd(8)' 3 'd(4)'
check "show by a table of a type without a count" lacks_count 'd[(]8[)]' "$work/own" 'd(8)'
check "show of a missing table" returns 1 err "$work/gone: No such file" tune --show "$work/gone" 'd(8)' 1
stale() {
    sed 's/^mpi any/mpi Another MPI 1.0\nstridec 0/' "$work/own" >"$work/stale" && show_says '^d\(8\) x 1' -- "$work/stale" 'd(8)' 1 &&
        [ "$(grep -c "$work/stale was measured with" "$work/show.err")" -eq 2 ] &&
        STRIDEC_TUNE=$work/stale returns 0 out '^warn +tuned table.*measured with Another MPI' doctor
}
check "a stale table is named" stale
{
    printf 'stridec tune 1\nknobs pack strided 4 4096 word=4 each=4\nknobs pack strided 8 0 model\n'
    printf 'knobs unpack mixed 8 0 threads=100\n\nknobs unpack struct 8 0 wrod=8\n'
} >"$work/knobs"
bad_knobs() {
    STRIDEC_TUNE=$work/knobs returns 0 out "^warn +tuned table +$work/knobs:4: threads=100: it is one of 256," doctor &&
        grep -qE "^warn +tuned table +$work/knobs:6: there is no knob \"wrod\"" "$work/out" &&
        [ "$(grep -c 'tuned table' "$work/out")" -eq 2 ]
}
check "doctor finds knobs that there are not" bad_knobs
host_tune() { "$root/tests/mpirun.sh" -n 2 "$stridec" tune --host --quick -o "$work/host.table" 2>&1; }
host_tuned() {
    host_tune && grep -qx 'machine any' "$work/host.table" && grep -Eqx 'offer 1 ([0-9]+|never)' "$work/host.table" &&
        ! grep -q curve "$work/host.table"
}
# What else there is stays, unless it is of something else.
host_again() {
    sed -i -e 's/^host .*/host 12345/' -e 's/^offer 1 .*/offer 1 77777/' "$work/host.table" && host_tune &&
        grep -qx 'host 12345' "$work/host.table" && ! grep -q 'offer 1 77777' "$work/host.table"
}
host_stale() {
    sed -i 's/^stridec .*/stridec 0/' "$work/host.table" && ! host_tune && grep -qx 'stridec 0' "$work/host.table"
}
if [ -z "$asan" ]; then   # mpirun can't take the sanitizer
    check "tune of host memory, without a GPU" host_tuned
    into() { "$root/tests/mpirun.sh" -n 2 "$stridec" tune --host --quick -o "$1" >"$work/into" 2>&1; [ $? -ne 0 ] && grep -q "$2" "$work/into"; }
    check "tune into a folder" into "$work" "^stridec tune: $work: Is a directory"
    touch "$work/plain"
    check "tune below a file" into "$work/plain/table" 'table: Not a directory'
    check "show of such a table" show_says '^offer 1 ' 'choice with an MPI' -- "$work/host.table"
    check "whose curves are not its own" show_says 'elsewhere, .* by built-in figures, for an H200$' -- "$work/host.table" 's(64,512,d(256))' 1
    check "tune of host memory keeps the rest" host_again
    check "tune of host memory refuses a stale table" host_stale
fi
if [ -e "$(dirname "$library")/sim/libcuda.so.1" ] && [ -z "$asan" ]; then
    # The ranks wait for each other busily, so that on few cores most of the time is theirs.
    quick() {
        # Behind `run`, whose copy of the library it must not take for the MPI.
        "$root/tests/mpirun.sh" -n 2 "$stridec" run --sim -- "$stridec" tune --quick -o "$work/tuned/table" "$@" >"$work/tuned.log" 2>&1 ||
            { cat "$work/tuned.log"; return 1; }
        grep -Eqx 'stridec tune: curves, at most [0-9]+ s left' "$work/tuned.log" && found &&
            grep -qx 'machine Simulated GPU' "$work/tuned/table" && grep -q '^stridec ' "$work/tuned/table"
    }
    # Five lines, of what was found against what was assumed.
    found() {
        [ "$(sed -nE 's/^([a-z]+) +found: .*; assumed: .*/\1/p' "$work/tuned.log" | tr '\n' ' ')" = "crossover launch link packing kernels " ] ||
            { cat "$work/tuned.log"; return 1; }
    }
    unread() { SIMGPU_FAIL=cuIpcGetMemHandle quick --no-kernels && ! grep -q 'curve zerocopy' "$work/tuned/table"; }
    check "tune without kernels, and without zero-copy where the ranks can't" unread
    no_time() {
        quick --seconds 1 && grep -Eq '^kernels +found: not measured; assumed: ' "$work/tuned.log" && ! grep -q '^knobs' "$work/tuned/table" &&
            show_says 'choice with an MPI' -- "$work/tuned/table" && whole_curves "$work/tuned/table"
    }
    # Each curve by blocks has all the rows of --quick; without that of zero-copy, long blocks keep it.
    whole_curves() {
        awk '$1 == "curve" { name = $2 } $1 == "block" { rows[name]++ } END { for (n in rows) if (rows[n] != 2) { print n, rows[n]; exit 1 } }' "$1" &&
            [ "$(grep -cE '^curve (un)?pack_(device|mapped|staged)$' "$1")" -eq 6 ] || return 1
        grep -q '^curve zerocopy' "$1" || show_says 'on the node, .*: +zerocopy: the rule' -- "$1" 's(64,8192,d(4096))' 1
    }
    check "tune without time is right in what it has" no_time
    both() { quick --pipeline --seconds 300 && grep -qx 'curve fused' "$work/tuned/table" && grep -Eq '^kernels +found: .*[(]4 of 4 layouts[)]; ' "$work/tuned.log" && grep -Eqx 'pipeline chunk=(262144|524288) depth=4 least=[0-9]+ device=0' "$work/tuned/table" &&
        grep -qx 'curve zerocopy' "$work/tuned/table" && grep -qx 'curve peer_read' "$work/tuned/table"; }
    check "tune, quickly" both
    check "tune shows its table" returns 0 out 'choice with an MPI' tune --show "$work/tuned/table"
    check "show by the table" show_says 'on the node, .*: +[a-z]+: [0-9.]+ us, [a-z]+ [0-9.]+ by' -- "$work/tuned/table" 's(64,512,d(256))' 1
    STRIDEC_TUNE=$work/tuned/table check "doctor sees the table" returns 0 out "^ok +tuned table.*$work" doctor
    # A T4's way to host memory is slower than an H200's.
    fitted() {
        local ask='s(65536,128,d(64))' card us=()
        for card in H200 T4; do
            SIMGPU_CARD=$card XDG_CONFIG_HOME=$work/none returns 0 out 'by built-in figures, fitted to Simulated GPU$' \
                run --sim -- "$stridec" tune --show "$ask" 1 || return 1
            us+=("$(sed -nE 's/^  elsewhere, +other MPI: +[a-z]+: ([0-9]+)[.][0-9] us .*/\1/p' "$work/out")")
        done
        [ "${us[1]}" -gt "${us[0]}" ]
    }
    check "show of built-in figures as they are on the GPU present" fitted
    STRIDEC_TUNE=$work/own check "doctor finds another GPU's table" returns 0 out '^warn +tuned table.*measured on A, this is' \
        run --sim -- "$stridec" doctor
    printf 'knobs pack strided 4 4096\n' >>"$work/tuned/table"
    check "a bad row of knobs has file and line" returns 1 err 'table:[0-9]+: knobs are name=value' \
        tune --show "$work/tuned/table"
    STRIDEC_TUNE=$work/tuned/table check "doctor finds a damaged table" returns 1 out '^bad +tuned table.*:[0-9]+: knobs' doctor
fi
unknown() { STRIDEC_FROB=1 returns 0 out '^warn +variables +STRIDEC_FROB is not a variable' doctor; }
check "doctor warns of unknown variables" unknown
exit $failed
