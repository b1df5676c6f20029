# shellcheck shell=bash
# results.sh: sourced by tests that print a line for each result, "ok NAME" or "not ok NAME", and then the end of what was
# said. $work is the test's folder. The test ends with `exit $failed`.
# shellcheck disable=SC2034   # for the caller
failed=0

tell() {   # NAME STATUS FILE
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "not ok $1"; failed=1; tail -n 15 "$3" | sed 's/^/    /'; fi
}

# result NAME: of the command before it, which has written to $work/out.
result() { tell "$1" $? "$work/out"; }

# check NAME COMMAND...: ok if the command succeeds. What it says is in $work/check.out.
check() {
    local name=$1
    shift
    "$@" >"$work/check.out" 2>&1
    tell "$name" $? "$work/check.out"
}
