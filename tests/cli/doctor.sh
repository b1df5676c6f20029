#!/usr/bin/env bash
# doctor.sh BUILD OTHER_BUILD: `stridec doctor`: what it says of a system, of programs and of jobs, and the messages that it
# checks. OTHER_BUILD: of another MPI. With MPI_TEST_SECOND=1 jobs alone. $MPICC is BUILD's. $san: see tests/check.sh.
# shellcheck disable=SC2015,SC2016,SC2317 # `check` calls functions; what follows && never fails
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd) other=$(cd "$2" 2>/dev/null && pwd)
stridec=$build/stridec
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STRIDEC_CACHE_DIR=$work/cache XDG_CONFIG_HOME=$work/config COLUMNS=500 BUILD=$build
. tests/results.sh

# says STATUS PATTERN ARGUMENT...: doctor ends so, and a line matches.
says() {
    local status=$1 pattern=$2 got
    shift 2
    "$stridec" doctor "$@" >"$work/out" 2>"$work/err"
    got=$?
    cat "$work/out" "$work/err"
    [ "$got" -eq "$status" ] || { echo "status $got, expected $status"; return 1; }
    grep -qE -- "$pattern" "$work/out" "$work/err"
}

# ---- this system ----
system() {
    local name
    says 0 "^ok +library +$build/libstridec.so, for (Open MPI|MPICH): libmpi" || return 1
    for name in launcher /dev/shm cma limits; do
        grep -Eq "^(ok|warn) +$name +[a-z0-9]" "$work/out" || { echo "no line of $name"; return 1; }
    done
}
variables() {
    STRIDEC_LGO=info STRIDEC_TRANSPORT=onehsot STRIDEC_KEEP=7 says 0 '^warn .*STRIDEC_LGO is not a variable of stridec: did you mean STRIDEC_LOG[?]$' &&
        grep -Eq '^warn +variables +STRIDEC_TRANSPORT=onehsot is not allowed .*; did you mean oneshot[?]$' "$work/out" &&
        grep -Eq '^ok +variables +STRIDEC_KEEP=7$' "$work/out"
}
disabled() { STRIDEC_DISABLE=1 says 0 '^warn +variables +STRIDEC_DISABLE leaves every call to the MPI; this one is not CUDA-aware'; }
one_fix_each() {   # every line that is no ok has a mend
    STRIDEC_LGO=1 STRIDEC_DISABLE=1 "$stridec" doctor |
        awk '/^(warn|bad)/ { if (open) { print; wrong = 1 } open = 1; next } /^ +fix: [^ ]/ { open = 0; next } { if (open) { print; wrong = 1 } open = 0 }
            END { exit wrong || open }'
}
ahead() {
    echo 'return { empty = contiguous(0, int) }' >"$work/nothing.lua"
    LD_LIBRARY_PATH=$build/sim "$stridec" gen "$work/nothing.lua" -o "$work/aot" --arch sm_80 || return 1
    STRIDEC_AOT=$work/aot SIMGPU_CARD=H200 says 1 "^bad +aot .* has nothing for GPU 0, sm_90: it holds sm_80 \\(2 modules\\)" --sim &&
        grep -q "fix: .stridec gen SPEC -o $work/aot --arch sm_90" "$work/out" &&
        STRIDEC_AOT=$work/aot SIMGPU_CARD=A100 says 0 "^ok +aot +$work/aot: sm_80" --sim &&
        STRIDEC_AOT=$work says 1 '^bad +aot .*No such file'
}
is_json() {   # [KEY=VALUE...]: doctor's standard output is the object that README describes
    python3 -c '
import json, sys
d = json.load(sys.stdin)
assert set(d) == {"stridec", "ranks", "worst", "findings"}, d.keys()
assert all(set(f) == {"level", "check", "name", "text", "fix", "ranks"} for f in d["findings"])
assert all(f["level"] in ("none", "ok", "warn", "bad") for f in d["findings"])
assert all(f["fix"] for f in d["findings"] if f["level"] in ("warn", "bad")), "no mend"
for want in sys.argv[1:]:
    key, value = want.split("=", 1)
    assert str(d[key]) == value if key in d else any(f["name"] == key and value in f["text"] for f in d["findings"]), want
' "$@"
}
json() { STRIDEC_LGO=1 STRIDEC_CACHE_DIR="$work/a \"b\\c" "$stridec" doctor --json | is_json ranks=1 worst=warn cache="a \"b\\c" stridec="$(cat "$root/VERSION")"; }
# Under a terminal of 60 columns: a program, what it prints.
terminal() {
    python3 -c '
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    os.environ.pop("COLUMNS", None)
    os.execvp(sys.argv[1], sys.argv[1:])
out = b""
while True:
    try:
        part = os.read(fd, 4096)
    except OSError:
        part = b""
    if not part:
        break
    out += part
sys.stdout.buffer.write(out.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))' env -u NO_COLOR TERM=xterm "$@"
}
coloured() { grep -q $'\033\\[32mok' "$work/out"; }
colours() {
    terminal "$stridec" doctor >"$work/out" && coloured || { echo "no colour on a terminal"; return 1; }
    sed 's/\x1b\[[0-9;]*m//g' "$work/out" | awk 'length > 60 && NF > 4 { print; wide = 1 } END { exit wide }' || return 1
    terminal env NO_COLOR=1 "$stridec" doctor >"$work/out" && ! coloured || { echo "NO_COLOR"; return 1; }
    terminal "$stridec" doctor --color never >"$work/out" && ! coloured || { echo "never"; return 1; }
    "$stridec" doctor >"$work/out" && ! coloured || { echo "colour without a terminal"; return 1; }
    "$stridec" doctor --color=always >"$work/out" && coloured
}
progress() {   # of gen: on a terminal alone, and on standard error
    terminal "$stridec" gen --target hip "$root/spec/halo.lua" -o "$work/hip" >"$work/out" &&
        grep -q '\] hip, 0 of 9' "$work/out" && grep -q '\] hip, 9 of 9, about 0 s left' "$work/out" &&
        "$stridec" gen --target hip "$root/spec/halo.lua" -o "$work/hip" 2>"$work/err" && [ ! -s "$work/err" ]
}
if [ -z "${MPI_TEST_SECOND:-}" ]; then
    check "what it says of the system" system
    check "variables, and which may be meant" variables
    check "an MPI on its own" disabled
    check "each warning has its mend" one_fix_each
    check "a folder of modules against the GPU" ahead
    check "JSON" json
    check "colours on a terminal, and its width" colours
    check "another word for colours" says 2 'it is auto, always or never' --color sometimes
    check "progress of gen" progress
fi

# ---- programs ----
# As tests/mpirun.sh has it: root may start jobs.
program() { OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/bin/false says "$@"; }
halo=$build/examples/halo3d
static() {
    echo 'int main(void) { return 0; }' >"$work/one.c"
    cc -static -o "$work/static" "$work/one.c" 2>/dev/null || { echo "NO STATIC LIBC"; return 0; }
    program 1 "^bad +program +$work/static is linked statically" "$work/static"
}
missing() {   # a library that the program was linked with
    echo 'int f(void) { return 0; }' >"$work/f.c"
    echo 'int f(void); int main(void) { return f(); }' >"$work/main.c"
    cc -shared -fPIC -o "$work/libgone.so" "$work/f.c" && cc -o "$work/main" "$work/main.c" -L"$work" -lgone && rm "$work/libgone.so" &&
        program 1 "^bad +program +$work/main needs libgone.so, which the loader does not find" "$work/main"
}
vendor() {   # another name of a library with MPICH's ABI
    echo 'int f(void) { return 0; }' >"$work/f.c"
    echo 'int f(void); int main(void) { return f(); }' >"$work/main.c"
    cc -shared -fPIC -Wl,-soname,libmpi_gnu.so.12 -o "$work/libmpi_gnu.so.12" "$work/f.c" &&
        cc -o "$work/vendor" "$work/main.c" "$work/libmpi_gnu.so.12" -Wl,-rpath,"$work" &&
        program 1 "^bad +program +$work/vendor needs MPICH \\(libmpi_gnu.so.12, $work/" "$work/vendor"
}
no_mpi4py_mpi() {   # an mpi4py that finds no MPI here
    mkdir -p "$work/py/mpi4py" && echo 'class rc: pass' >"$work/py/mpi4py/__init__.py" &&
        echo 'raise RuntimeError("no /usr/lib/libmpi.so.12")' >"$work/py/mpi4py/MPI.py" &&
        PYTHONPATH=$work/py program 0 '^ok +program +its mpi4py finds an MPI at run time' "$python"
}
setuid() {
    cp "$halo" "$work/setuid" && chown 65534 "$work/setuid" && chmod u+s "$work/setuid" &&
        program 1 "^bad +program +$work/setuid runs with rights of another user" "$work/setuid"
}
interpreted() {
    printf '#!/bin/sh\nexec true\n' >"$work/script" && chmod +x "$work/script" && program 0 "^ok +program +$work/script is a script for /bin/sh" "$work/script" &&
        printf '#!/usr/bin/env -S python3 -u\n' >"$work/snake" && chmod +x "$work/snake" && program 0 "is a script for .*/python3" "$work/snake" &&
        printf 'hello\n' >"$work/text" && program 1 "^bad +program +$work/text may not be run: Permission denied" "$work/text" &&
        chmod +x "$work/text" && program 1 "^bad +program +$work/text is text, and its first line names no interpreter" "$work/text" &&
        printf '#!/no/such/thing\n' >"$work/text" && program 1 'is text, and its first line names no interpreter' "$work/text" &&
        printf '\1\0\2' >"$work/text" && program 1 'is neither a program of this system nor a script' "$work/text"
}
clears() {   # an mpirun in whose jobs nothing is preloaded
    mkdir "$work/bin" && printf '#!/bin/sh\n[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1" || env\n' >"$work/bin/mpirun" && chmod +x "$work/bin/mpirun" &&
        PATH=$work/bin:$PATH program 1 "^bad +preload +$work/bin/mpirun, or what it starts, clears LD_PRELOAD" "$halo"
}
late() {   # LD_PRELOAD behind a long environment
    mkdir "$work/late" && printf '#!/bin/sh\n[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1" && exit
i=0; while [ $((i += 1)) -le 2000 ]; do echo "NAME_$i=a long value"; done; shift 2; exec "$@"\n' >"$work/late/mpirun" &&
        chmod +x "$work/late/mpirun" && PATH=$work/late:$PATH program 0 "^ok +preload +$work/late/mpirun leaves LD_PRELOAD" "$halo"
}
nowhere() {   # the command is not where stridec-mpi looks
    mkdir -p "$work/a/b/c/d/e" && cp "$build/stridec-mpi" "$work/a/b/c/d/e/" && cp "$build/libstridec.so" "$work/a/b/c/d/e/" || return 1
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$work/a/b/c/d/e/stridec-mpi" doctor "$halo" | tee "$work/out"
    grep -Eq '^- +preload +not checked: no command stridec' "$work/out" || return 1
    mkdir "$work/a/bin" && cp "$stridec" "$work/a/bin/" && cp "$build/stridec-mpi" "$work/a/bin/" && cp "$build/libstridec.so" "$work/a/bin/" &&
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$work/a/b/c/d/e/stridec-mpi" doctor "$halo" | tee "$work/out" &&
        grep -Eq '^ok +preload ' "$work/out"
}
python=$(for p in /usr/bin/python3 python3; do "$p" -c 'import mpi4py' 2>/dev/null && echo "$p" && break; done)
if [ -z "${MPI_TEST_SECOND:-}" ]; then
    check "an MPI program" program 0 "^ok +program +$halo needs Open MPI \\(libmpi.so.40, /.*\\), for which stridec is" "$halo"
    [ -n "${san:-}" ] || check "which is preloaded under mpirun" grep -Eq '^ok +preload ' "$work/out"
    check "a launcher that clears the environment" clears
    [ -n "${san:-}" ] || check "and one behind a long environment" late
    [ -n "${san:-}" ] || check "a build that does not find the command" nowhere
    check "a program of PATH without MPI" program 0 '^ok +program +/.*/true is dynamic, and needs no MPI itself' true
    [ -z "$python" ] || check "mpi4py's MPI" program 0 '^ok +program +its mpi4py needs Open MPI .libmpi.so.40, /' "$python"
    check "mpi4py without its MPI" no_mpi4py_mpi
    check "a vendor's name of MPICH" vendor
    check "a static program" static
    check "a library that is not there" missing
    if [ "$(id -u)" = 0 ]; then check "a program with rights of another user" setuid; else echo "ok left out: setuid takes root"; fi
    check "scripts and texts" interpreted
    check "no such program" program 1 '^bad +program +no-such-program: there is no such program on PATH' no-such-program
    check "no such file" program 1 "^bad +program +$work/none: there is no such program\$" "$work/none"
    check "a folder" program 1 "^bad +program +$work: it is a folder" "$work"
    check "a library" program 1 'libstridec.so is linked statically .or is no program.' "$build/libstridec.so"
elif [ -n "$other" ]; then
    check "a program of another MPI" program 1 "^bad +program +$other/examples/halo3d needs Open MPI .*, and this stridec is for MPICH" \
        "$other/examples/halo3d"
fi

# ---- jobs ----
job() {   # STATUS PATTERN RANKS COMMAND...: mpirun ends so, or with any but 0 for 1
    local status=$1 pattern=$2 ranks=$3 got
    shift 3
    timeout -k 5 100 "$root/tests/mpirun.sh" -n "$ranks" "$@" >"$work/out" 2>"$work/err"
    got=$?
    cat "$work/out"
    [ "$((got != 0))" -eq "$status" ] || { echo "status $got"; cat "$work/err"; return 1; }
    grep -qE -- "$pattern" "$work/out" "$work/err"
}
one_report() {
    job 0 '^ok +launcher +ranks 0-2: [A-Z]' 3 "$stridec" doctor && [ "$(grep -c ' launcher ' "$work/out")" = 1 ] &&
        ! grep -v '^ ' "$work/out" | grep -v 'ranks 0-2: '
}
differing() {
    job 0 '^ok +variables +rank 0: STRIDEC_LOG=info' 1 env STRIDEC_LOG=info "$stridec" doctor : -n 2 "$stridec" doctor &&
        [ "$(grep -c STRIDEC_LOG "$work/out")" = 1 ] && grep -Eq '^ok +variables +ranks 0-2: STRIDEC_CACHE_DIR=' "$work/out"
}
job_json() { job 0 '"ranks": 2' 2 env -u STRIDEC_CACHE_DIR "$stridec" doctor --json && is_json ranks=2 <"$work/out"; }
foreign() {   # each rank would be a job of its own: one report says so
    job 1 '^bad +launcher +.* and stridec is for .*: each rank would be a job of its own' 2 "$other/stridec" doctor &&
        [ "$(grep -c '^bad +launcher' "$work/out")" -le 1 ] && [ "$(grep -c ' stridec  ' "$work/out")" = 1 ]
}
slurm() {   # a step of several tasks that have no PMI; a shell of a job, which has the variables too
    SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 says 1 '^bad +launcher +srun, without PMIx or PMI: each rank would be a job of its own' &&
        SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 "$stridec" doctor >"$work/out"; [ ! -s "$work/out" ] &&
        SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 says 0 '^ok +launcher +none'
}
no_init() {   # the MPI ends the process: what was found is told
    PMI_RANK=0 PMI_SIZE=1 PMI_FD=99 "$stridec" doctor >"$work/out" 2>"$work/err"
    grep -q '^bad  mpi .* MPI_Init ends the program' "$work/out" && grep -q '^ok   stridec ' "$work/out"
}
messages() {
    job 0 '^ok +host mpi +[0-9]+ messages, [0-9.]+ MB: every byte is right' 2 "$stridec" doctor --sim --messages || return 1
    for way in host\ {packed,shared,zerocopy} device\ {zerocopy,oneshot,staged,pipelined}; do
        grep -Eq "^ok +$way +[1-9][0-9]* messages, [0-9.]+ MB: every byte is right" "$work/out" || { echo "not $way"; return 1; }
    done
    grep -Eq '^- +device device +not available: this MPI takes no device memory' "$work/out"
}
aware() {   # where the MPI takes device memory
    job 0 '^ok +device device +[1-9][0-9]* messages' 2 env LD_PRELOAD="$build/sim/libaware.so" SIMGPU_OPEN=1 "$stridec" doctor --sim --messages &&
        grep -Eq '^ok +device mpi +[1-9][0-9]* messages' "$work/out"
}
wrong() {   # a byte that another process's memory brings
    job 1 '^bad +host zerocopy +[1-9][0-9]* of [0-9]+ messages wrong: rank [01] from rank [01], .*: first at byte 0' 2 \
        env CUDA_VISIBLE_DEVICES= LD_PRELOAD="$build/tests/mpi/libflip.so" "$stridec" doctor --messages &&
        grep -Eq '^ok +host shared ' "$work/out" && grep -Eq '^- +device zerocopy +not available: no GPU on every rank' "$work/out" &&
        grep -q 'fix: please report it .*leave STRIDEC_TRANSPORT=zerocopy' "$work/out"
}
some() {   # one rank asks for messages: all send them
    job 0 '^ok +host mpi +[0-9]+ messages, [0-9.]+ MB: every byte is right' 1 "$stridec" doctor --messages : -n 1 "$stridec" doctor &&
        job 0 '^ok +host mpi +[0-9]+ messages' 1 "$stridec" doctor : -n 1 "$stridec" doctor --messages
}
unobserved() {   # doctor's own messages are no program's: what a run has written stays
    echo kept | tee "$work/kept.lua" >"$work/kept.json" && mkdir "$work/kept" && echo kept >"$work/kept/0.json" || return 1
    STRIDEC_RECORD=$work/kept.lua STRIDEC_STATS=json:$work/kept.json STRIDEC_TRACE=$work/kept \
        job 0 '^ok +host mpi ' 2 "$stridec" doctor --messages &&
        [ "$(cat "$work/kept.lua" "$work/kept.json" "$work/kept/0.json" | uniq)" = kept ]
}
off() { job 0 '^- +host shared +not available: STRIDEC_HOST=off' 2 env STRIDEC_HOST=off "$stridec" doctor --messages; }
check "a step without PMI" slurm
case $("$stridec" doctor) in *"libstridec.so, for MPICH"*) check "an MPI_Init that ends the process" no_init ;; esac
check "messages without ranks" says 2 'needs two ranks: mpirun -n 2 stridec doctor --messages' --messages
if [ -z "${san:-}" ]; then   # mpirun can't take the sanitizer
    check "one report for all ranks" one_report
    check "ranks that differ" differing
    check "JSON of a job" job_json
    [ -z "$other" ] || check "under the launcher of another MPI" foreign
    check "messages to one rank" job 0 '^warn +messages +rank 0: none sent|^warn +messages +none sent' 1 "$stridec" doctor --messages
    check "messages by each protocol" messages
    [ -n "${MPI_TEST_SECOND:-}" ] || check "messages of a CUDA-aware MPI" aware
    check "messages that one rank asks for" some
    check "no statistics of doctor's own" unobserved
    check "a wrong byte in a message" wrong
    [ -n "${MPI_TEST_SECOND:-}" ] || check "a protocol that is switched off" off
fi

# ---- make demo ----
demo() {
    EXCHANGES=3 "$root/tests/demo.sh" >"$work/out" || return 1
    sed -n '/^verified$/,/^next$/p' "$work/out" >"$work/summary"
    [ "$(wc -l <"$work/summary")" -le 12 ] && [ "$(sed -n '/^next$/,$p' "$work/out" | wc -l)" -eq 4 ] &&
        grep -Eq '^  ran +.*halo3d: 4 ranks as 2 x 2 x 1$' "$work/summary" && grep -Eq '^  took +[0-9]+ s; exchanges: median' "$work/summary" &&
        grep -Eq '^  checked +after each of 3 exchanges: [0-9]+ halo cells right' "$work/summary" &&
        grep -Eq '^  stridec +52 datatypes(, [1-9]|: by stridec )' "$work/summary"
}
demo_fails() { MPIRUN=false "$root/tests/demo.sh" >"$work/out"; [ $? -eq 1 ] && grep -q '^NOT VERIFIED' "$work/out" && ! grep -qx verified "$work/out"; }
if [ -z "${san:-}${MPI_TEST_SECOND:-}" ]; then
    check "the demo ends with a summary" demo
    check "the demo of a program that fails" demo_fails
fi
exit $failed
