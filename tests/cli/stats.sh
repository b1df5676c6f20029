#!/bin/bash
# stats.sh BUILD: what `stridec run --stats` tells of host memory: what was left to the MPI and why, the names that the program
# gives its types, and why a table is empty. Variables: MPICC; $san: see tests/check.sh.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache
failed=0
result() {   # NAME, after a command
    if [ $? -eq 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; sed 's/^/    /' "$work/out" | tail -15; fi
}
table() {   # WHAT [NAME=VALUE...]: of two ranks
    local what=$1
    shift
    tests/mpirun.sh -n 2 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} env "$@" "$build/stridec" run --stats -- \
        "$work/stats" "$what" >"$work/out" 2>&1
}
has() {
    grep -qE -- "$1" "$work/out"
}

"${MPICC:-mpicc}" -o "$work/stats" tests/cli/stats.c >"$work/out" 2>&1
result "the program is compiled"

table left && has '^stridec: 2 ranks, 1 datatype,' &&
    if strings "$work/stats" | grep -q ompi_; then
        has '^ +0 +0 strided +- ' && has 'left to the MPI: [2-8] calls, [1-9][0-9]* bytes: nonblocking sends of such lengths and runs'
    else
        has '^ +[1-8] +[1-9][0-9]* strided +(shared|zerocopy)'
    fi
result "what was left to the MPI, and why"

table kinds && has ' early and freed: s[(]1024,32,d[(]4[)][)]$' && has ' late: s[(]1024,32,d[(]8[)][)]$' &&
    has '  s[(]1024,32,d[(]12[)][)]$'
result "the names that the program gave its types"
table kinds STRIDEC_TRANSPORT=staged && has '^ +[1-9][0-9]* +[1-9][0-9]* strided +host .* late: '
result "messages that are packed are counted"

table seldom && has '^ +nothing was counted: no derived type was ' &&
    has 'left to the MPI, uncounted: 6 derived types .* too seldom to be read$'
result "types that were used too seldom"
table plain && has '^ +nothing was counted: no derived type was ' && ! has 'left to the MPI, unc'
result "a program without derived types"
table kinds STRIDEC_DISABLE=1 && has '^ +nothing was counted: STRIDEC_DISABLE '
result "a library that is switched off"
table kinds STRIDEC_HOST=off && has '^ +nothing was counted: .*STRIDEC_HOST=off '
result "host memory that is left to the MPI"
exit $failed
