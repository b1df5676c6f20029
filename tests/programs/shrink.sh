#!/bin/sh
# shrink.sh BUILD RANKS SEED [ARGUMENT...]: makes a program that differs smaller: fewer operations, fewer strands at a time, flatter types,
# shorter messages. Prints what is left as a list of calls, and the command that shows it. The environment is the caller's;
# PROGRAMS_ALONE=1 runs without stridec, PROGRAMS_SIM=1 on the simulated GPU; PROGRAMS_BEFORE=N runs the N programs before it
# too, for what they leave behind; operations are then left out of all.
build=$1 ranks=$2 seed=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
under="$build/stridec run ${PROGRAMS_SIM:+--sim} --"
[ -z "$PROGRAMS_ALONE" ] || under=
before=${PROGRAMS_BEFORE:-0}

attempt() {   # ARGUMENT...: the program runs; its output is in $work/out
    # shellcheck disable=SC2086
    timeout -k 5 "${PROGRAMS_LIMIT:-120}" "$here/../mpirun.sh" -n "$ranks" $under "$build/tests/programs/programs" $((seed - before)) $((before + 1)) "$@" \
        >"$work/out" 2>&1 </dev/null
}
fails() { ! attempt "$@"; }

# Fewer programs before it.
while [ "$before" -gt 0 ]; do
    all=$before
    for before in 0 $((all / 4)) $((all / 2)) $((all * 3 / 4)) $((all - 1)) "$all"; do
        if fails "$@"; then break; fi
    done
    [ "$before" -lt "$all" ] || break
done

attempt --tell "$@"
ops=$(sed -n 's/^op \([0-9]*\): .*/\1/p' "$work/out" | sort -nu | paste -sd, -)
if ! fails --only "$ops" "$@"; then
    echo "# shrink: seed $seed runs without a difference this time"
    exit 1
fi

# Leaves out halves of the operations, then quarters, then single ones, as long as the program still fails.
without() {   # LIST FROM TO: all but those
    echo "$1" | tr ',' '\n' | sed "$2,$3d" | paste -sd, -
}
count() { echo "$1" | tr ',' '\n' | grep -c .; }
step=$(($(count "$ops") / 2))
while [ "$step" -gt 0 ]; do
    at=1
    while [ "$at" -le "$(count "$ops")" ]; do
        fewer=$(without "$ops" "$at" $((at + step - 1)))
        if [ -n "$fewer" ] && fails --only "$fewer" "$@"; then ops=$fewer; else at=$((at + step)); fi
    done
    step=$((step / 2))
done
set -- --only "$ops" "$@"
for smaller in "--threads 1" "--depth 0" "--depth 1" "--depth 2" "--most 1" "--most 4" "--most 20" "--most 100" "--most 500" "--most 2000"; do
    case " $* " in *" ${smaller% *} "*) continue ;; esac
    # shellcheck disable=SC2086
    if fails $smaller "$@"; then set -- $smaller "$@"; fi
done
attempt --tell "$@"

cut -c1-600 "$work/out" | grep -E '^(op|not ok|    )|^stridec|ssert|rror' | awk '!seen[$0]++' | head -80
echo "# shown by: programs $((seed - before)) $((before + 1)) $* (on $ranks ranks)"
