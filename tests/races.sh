#!/bin/sh
# races.sh FILE...: prints ThreadSanitizer's reports in these files that have a frame of stridec's before the lines that tell where
# threads were created. False where there are none. The files go.
awk '
    /^=+$/ { if (own) { printf "%s", report; found = 1 } report = ""; own = past = 0; next }
    { report = report $0 "\n" }
    /^  (Thread|Location)/ { past = 1 }
    !past && / #[0-9]+ .*(libstridec\.so|\/tests\/unit\/|stridec-mpi)/ { own = 1 }
    END { exit !found }
' "$@" 2>/dev/null
found=$?
rm -f "$@"
exit $found
