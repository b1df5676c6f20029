#!/bin/bash
# report.sh BUILD: `stridec inspect --svg`: pictures are valid and hold what they should.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache
stridec=$build/stridec
failed=0
check() {   # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$work/out" 2>&1; then echo "ok $name"; else
        echo "not ok $name"
        sed 's/^/    /' "$work/out" | head -8
        failed=1
    fi
}
fails() {   # STATUS MESSAGE ARGUMENT...
    local status=$1 message=$2 got
    shift 2
    "$stridec" "$@"
    got=$?
    [ "$got" -eq "$status" ] && grep -qF -- "$message" "$work/out"
}

# ---- pictures ----
"$stridec" inspect 's(3,16,d(8))' --svg >"$work/b.svg"
check "a picture in a file" sh -c '"$1" inspect "s(3,16,d(8))" --svg -o "$0/a.svg" && cmp "$0/a.svg" "$0/b.svg"' \
    "$work" "$stridec"
check "a picture is of one type" fails 2 '--svg draws one type' inspect spec/halo.lua --svg
check "-o is for pictures" fails 2 '-o is for --svg' inspect 'd(8)' -o "$work/x"
python3 tests/cli/pictures.py "$stridec" || failed=1

exit $failed
