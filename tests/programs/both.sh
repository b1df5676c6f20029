#!/bin/sh
# both.sh: random MPI programs with both MPIs, one after the other: half of PROGRAMS (2000) or of HOURS each (make fuzz-programs).
here=$(dirname "$0")
bad=0
[ -z "$HOURS" ] || HOURS=$(awk -v hours="$HOURS" 'BEGIN { print hours / 2 }')
export HOURS PROGRAMS=$((${PROGRAMS:-2000} / 2))
"$here/programs.sh" "${BUILD:-build}" "${MPICC:-mpicc}" || bad=1
"$here/programs.sh" "${MPICH_BUILD:-build/mpich}" mpicc.mpich || bad=1
exit $bad
