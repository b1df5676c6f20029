#!/bin/sh
# races.sh FILE...: prints ThreadSanitizer's reports in these files that have a frame of stridec's before the lines that tell where
# threads were created; not those of which it has lost who the other one was, mostly the MPI in another thread. False where there
# are none. The files go.
# Reports tell frames as a file and an offset (symbolize=0); they are named here. ThreadSanitizer itself would open the file of
# every module. One loaded as /proc/self/fd/N is gone, and N may be an empty file by then: it hung in its handler of SIGBUS.
awk '
    function named(frame,   part, from, text, more) {
        if (split(frame, part, /[()]|\+0x/) < 4 || part[2] !~ /^\//) return frame
        from = "addr2line -pifse \"" part[2] "\" 0x" part[3] " 2>/dev/null"
        text = part[1]
        while ((from | getline more) > 0) text = text more "; "
        close(from)
        return text "(" part[2] "+0x" part[3] ")"
    }
    function print_report(   line, n, i) {
        n = split(report, line, "\n")
        for (i = 1; i < n; i++) print line[i] ~ / #[0-9]+ / ? named(line[i]) : line[i]
    }
    /^=+$/ { if (own) { print_report(); found = 1 } report = ""; own = past = lost = 0; next }
    { report = report $0 "\n" }
    /failed to restore the stack/ { lost = 1; own = 0 }
    /^  (Thread|Location|Mutex .* created)/ { past = 1 }
    !past && !lost && / #[0-9]+ .*(libstridec\.so|\/tests\/unit\/|stridec-mpi)/ { own = 1 }
    END { exit !found }
' "$@" 2>/dev/null
found=$?
rm -f "$@"
exit $found
