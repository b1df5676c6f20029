#!/bin/sh
# races.sh FILE...: prints ThreadSanitizer's reports in these files that have a frame of stridec's before the lines that tell where
# threads were created; not those of which it has lost who the other one was, mostly the MPI in another thread. False where there
# are none. The files go.
awk '
    /^=+$/ { if (own) { printf "%s", report; found = 1 } report = ""; own = past = lost = 0; next }
    { report = report $0 "\n" }
    /failed to restore the stack/ { lost = 1; own = 0 }
    /^  (Thread|Location|Mutex .* created)/ { past = 1 }
    !past && !lost && / #[0-9]+ .*(libstridec\.so|\/tests\/unit\/|stridec-mpi)/ { own = 1 }
    END { exit !found }
' "$@" 2>/dev/null
found=$?
rm -f "$@"
exit $found
