#!/bin/sh
# valgrind.sh BUILD [PROGRAM...]: programs of tests/mpi on the simulated GPU under valgrind's memcheck: no access
# that is wrong and no memory that is lost, but for what the MPI of $MPICC does (tests/valgrind.supp). Whether
# values are defined is not asked: MPIs send what is not.
build=${1:?usage: valgrind.sh BUILD [PROGRAM...]}
shift
[ $# -gt 0 ] || set -- pack sessions
cd "$(dirname "$0")/.." || exit 2
if ! command -v valgrind >/dev/null 2>&1; then
    echo "ok valgrind: left out: it is not installed (tests/deps.sh check installs it)"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0
for name in "$@"; do
    STRIDEC_CACHE_DIR=$work/cache timeout -k 5 "${VALGRIND_TIMEOUT:-240}" tests/mpirun.sh -n 2 \
        "$build/stridec" run --sim -- valgrind --leak-check=full --show-leak-kinds=definite,indirect,possible \
        --errors-for-leak-kinds=definite,indirect,possible --undef-value-errors=no --num-callers=40 --fair-sched=try \
        --suppressions=tests/valgrind.supp --log-file="$work/$name.%p" --error-exitcode=9 \
        "$build/tests/mpi/$name" >"$work/out" 2>&1
    status=$?
    if [ $status = 0 ] && grep -q '^# [1-9][0-9]* passed, 0 failed' "$work/out"; then
        echo "ok $name under valgrind"
    else
        failed=1
        echo "not ok $name under valgrind: exit status $status"
        { grep '^not ok' "$work/out"; grep -h -A12 -m3 'lost in\|Invalid' "$work/$name".*; } | head -60
    fi
done
exit $failed
