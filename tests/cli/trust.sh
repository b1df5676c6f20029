#!/bin/bash
# trust.sh BUILD: what another user of the machine may do to a program under stridec, with two users: one that runs it, and a
# stranger. As root alone. $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
. tests/results.sh
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "ok left out: another user takes root and setpriv"; exit 0; }

# Both find what they run, wherever the build is.
chmod 755 "$work"
mkdir -p "$work/bin/tests/mpi" "$work/lib" "$work/user" "$work/open" "$work/own"
cp "$build"/stridec "$build"/stridec-mpi "$build"/libstridec.so "$work/bin"
cp "$build"/tests/mpi/shared "$build"/tests/mpi/liblate.so "$build/bench/cpu_pack" "$work/bin/tests/mpi"
ldd "$build/tests/mpi/shared" | awk '/libcudart/ && $3 ~ "/" { print $3 }' | xargs -r -I{} cp -L {} "$work/lib"
cp tests/mpirun.sh "$work/bin"
chmod 1777 "$work/open"
chmod 700 "$work/own"
chown -R 65534:65534 "$work/user" "$work/own" "$work/open"
export LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} HOME=$work/user
unset XDG_CACHE_HOME XDG_CONFIG_HOME
as_user() { (umask 002 && setpriv --reuid=65534 --regid=65534 --clear-groups "$@"); }
as_stranger() { setpriv --reuid=65533 --regid=65533 --clear-groups "$@"; }
preload=
program() {   # RANKS NAME ARGUMENT...
    # The sanitizer's runtime comes before what else is preloaded.
    local under=(env ${preload:+"LD_PRELOAD=$preload"})
    # shellcheck disable=SC2206
    [ -z "${san:-}" ] || under=($san${preload:+:$preload} ASAN_OPTIONS=detect_leaks=0)
    as_user env STRIDEC_HOST=on "${settings[@]}" timeout -k 5 100 "$work/bin/mpirun.sh" -n "$1" "${under[@]}" \
        "$work/bin/stridec" run -- "$work/bin/tests/mpi/$2" "${@:3}" >"$work/out" 2>&1
}

# A rank's name in /dev/shm: the stranger has it first. Rank 1 is held in MPI_Init until then.
settings=("LATE=$work/late" "TAKE=$work/user/take") preload=$work/bin/tests/mpi/liblate.so
program 2 shared --host taken &
until [ -s "$work/user/take" ] || ! kill -0 $! 2>/dev/null; do :; done
name=$(cat "$work/user/take" 2>/dev/null)
[ -z "$name" ] || as_stranger sh -c 'head -c 9000000 /dev/zero >"$0" && chmod 777 "$0"' "$name"
: >"$work/late"
wait $!
preload=
result "another user takes a rank's name in /dev/shm"
[ -n "$name" ] && [ "$(stat -c %u "$name")" = 65533 ] && rm -f "$name"
result "the other user's file is left alone"

# Code for host memory: what the user has compiled comes from the own folder, and from no other one.
cached() { grep -q 'in host memory: cached' "$work/out"; }
code() {   # FOLDER
    settings=("STRIDEC_CACHE_DIR=$1" STRIDEC_LOG=debug)
    program 1 cpu_pack --only NAS_LU_y --least 65536 --most 65536 --ms 1 "$work/user/pack.json" && grep -q ', 0 wrong' "$work/out"
}
code "$work/user/cache"
[ "$(stat -c %a "$work/user/cache")" = 700 ] && [ -z "$(find "$work/user/cache" -perm /077)" ]
result "under umask 002 the cache is the user's alone"
code "$work/user/cache" && cached
result "code is taken from the own cache"
as_user cp -r "$work/user/cache/." "$work/open"
code "$work/open" && ! cached && grep -q 'others may write to it' "$work/out"
result "no code is taken from a folder that all may write to"
cp "$work"/user/cache/*.so "$work/own" && chown 65533 "$work"/own/* && chmod 644 "$work"/own/*
code "$work/own" && ! cached && grep -q 'it belongs to another user' "$work/out"
result "no code is taken from another user's file"
exit $failed
