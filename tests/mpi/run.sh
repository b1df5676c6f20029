#!/bin/sh
# run.sh BUILD_DIR [MPICC] [PROGRAM...]: runs the multi-rank tests under `stridec run --sim`, a line of the tests'
# "run:" comments each, and prints "ok" or "not ok" for it.
#   run: [NAME=VALUE ...] -n RANKS [ARGUMENT ...] [=> warns | => ends [STATUS]]
# Values that stand for libraries to preload, in the build folder:
#   @AWARE makes the MPI CUDA-aware; @ADDRESS does, and ends jobs where such an MPI would go wrong
#   @SCARCE has what stridec asks for run out; @ATTACH has the reading of other processes' memory fail
#   @VOTE has votes fail on rank 1; @LATE keeps rank 1 in MPI_Init; @ATTRIBUTES counts deleted attributes
#   @STREAMS has MPICH take CUDA streams that it was built without
#   @TOOL is another tool of the profiling interface, which stridec comes before; @TOOL_FIRST that, then stridec
#   @TWICE is a copy of stridec's
# For files: @NEW is a new empty folder, @FILE a file that is not there yet, @KEEP one folder for all lines of a
# program.
# NODES=2 starts the ranks in turn on two nodes, which share only this machine; only Open MPI can be told so.
# "warns": standard error must hold a warning of stridec's, and no line of one rank's twice. "ends": the job ends itself
# before its end, with that exit status or any but 0, and neither by a signal nor by the clock.
# Without programs all are run; with MPI_TEST_SECOND=1 those that depend on the MPI, on at most three ranks. With
# TEST_TURN, a number, of a program's lines the first two and every third of the others; of the second MPI's the first.
# With MPI_TEST_AWARE=1 the MPI is CUDA-aware itself: without lines of host memory alone, and of MPIs that only say so.
# MPI_TEST_RANKS is the number of ranks of all lines. MPI_TEST_SIM=0 runs on the real GPU, MPI_TEST_HOST=1 on the MPI alone; MPI_TEST_TIMEOUT is in seconds (120; 360 where
# SAN is set).
build=${1:?usage: run.sh BUILD_DIR [MPICC] [PROGRAM...]}
MPICC=${2:-${MPICC:-mpicc}}
export MPICC
here=$(cd "$(dirname "$0")" && pwd)
MPIRUN=$("$here/../mpirun.sh" --which)   # found once: it takes longer than some programs
export MPIRUN
if [ $# -gt 2 ]; then shift 2; else set --; fi
limit=${MPI_TEST_TIMEOUT:-$([ -n "$SAN" ] && echo 360 || echo 120)}
umask 022
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
export STRIDEC_CACHE_DIR="$work/cache"

# ThreadSanitizer writes what it has seen to files, and needs addresses that are not random. A report counts where a function of
# stridec's is part of it.
runtime=libasan.so fixed=
if [ "$SAN" = thread ]; then
    runtime=libtsan.so fixed=$(setarch -R true 2>/dev/null && echo "setarch -R")
    export TSAN_OPTIONS="suppressions=$here/../tsan.supp exitcode=0 history_size=7 symbolize=0 stack_trace_format='    #%n (%m+%o)' log_path=$work/race $TSAN_OPTIONS"
    # Workaround (UCX, which MPICH may use): its madvise takes a lock where a thread ends, which ThreadSanitizer knows no more.
    export UCX_MEM_EVENTS=no
fi

raced() {   # prints the reports
    [ "$SAN" = thread ] && "$here/../races.sh" "$work"/race.*
}

run_lines() {   # of a program
    sed -n '/\*\//q; s/^ \* run: //p' "$here/$1.c"
}

start() {   # PROGRAM RANKS ARGUMENT...
    program=$build/tests/mpi/$1 ranks=$2
    shift 2
    # The sanitizer's runtime comes before all other libraries, but not into mpirun.
    san=${SAN:+$fixed env LD_PRELOAD=$(gcc -print-file-name="$runtime")${LD_PRELOAD:+:$LD_PRELOAD}}
    # shellcheck disable=SC2086
    if [ -n "$MPI_TEST_HOST" ]; then
        timeout -k 5 "$limit" "$here/../mpirun.sh" -n "$ranks" "$program" --host "$@"
    elif [ "$MPI_TEST_SIM" = 0 ]; then
        timeout -k 5 "$limit" "$here/../mpirun.sh" -n "$ranks" $san "$build/stridec" run -- "$program" "$@"
    else
        timeout -k 5 "$limit" "$here/../mpirun.sh" -n "$ranks" $san "$build/stridec" run --sim -- "$program" "$@"
    fi
}

no_leaks() {   # [OPTION]: leaks are not looked for; one option of the address sanitizer's more
    export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0${1:+:$1}"
}

warned() {   # standard error holds a warning, and none twice
    grep '^stridec\[[0-9]*\]: warn' "$work/err" >"$work/warnings" && ! sort "$work/warnings" | uniq -d | grep -q .
}

# MPICH's mpirun may lose lines of a job that it ends, even all: then its status must be no shell's and no signal's.
lost_lines() {   # STATUS
    case $MPICC in *mpich*) [ ! -s "$work/out" ] && [ ! -s "$work/err" ] && [ "$1" -lt 126 ] ;; *) false ;; esac
}

ended() {   # STATUS WANTED: before its end, by itself
    case $1 in
    0 | 124 | 137) false ;;
    "${2:-$1}")
        grep -q "^# TEST_SEED" "$work/out" || grep -q "Abort(" "$work/err" || lost_lines "$1" || return 1
        ! grep -q "^not ok " "$work/out" && ! grep -qi "signal: \|(signal " "$work/err" ;;
    *) false ;;
    esac
}

# Has Open MPI start ranks in turn on two "nodes" of this machine, which reach each other by TCP: each has a daemon, a folder for
# temporary files and, where this may be, a host name of its own. False if ranks don't see that they are on two.
on_nodes() {
    cat >"$work/on" <<END
#!/bin/sh
export TMPDIR=$work/\$1
mkdir -p "\$TMPDIR"
name=\$1
shift
if unshare -u true 2>/dev/null; then exec unshare -u sh -c "hostname \$name && \$*"; fi
exec sh -c "\$*"
END
    chmod +x "$work/on"
    printf '%s slots=8\n' node-a node-b >"$work/hosts"
    export OMPI_MCA_plm_rsh_agent="$work/on" OMPI_MCA_orte_default_hostfile="$work/hosts" OMPI_MCA_rmaps_base_mapping_policy=node \
        PRTE_MCA_plm_ssh_agent="$work/on" PRTE_MCA_prte_default_hostfile="$work/hosts" \
        PRTE_MCA_rmaps_default_mapping_policy=node:oversubscribe OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self
    # shellcheck disable=SC2016
    [ "$(timeout 60 "$here/../mpirun.sh" -n 2 sh -c 'echo $OMPI_COMM_WORLD_LOCAL_SIZE' 2>/dev/null | tr -d '\n')" = 11 ]
}

one_line() {   # PROGRAM WORDS... : in a subshell, so that its variables end with it
    name=$1 warns= ends= wanted= NODES=
    shift
    while [ "$1" != -n ]; do
        value=${1#*=}
        case $value in
        @AWARE) value=$(cd "$build" && pwd)/sim/libaware.so ;;
        @ADDRESS) value=$(cd "$build" && pwd)/sim/libaware.so:$(cd "$build" && pwd -P)/tests/mpi/libaddress.so ;;
        @SCARCE) value=$(cd "$build" && pwd -P)/tests/mpi/libmemory.so ;;
        @TOOL) value=$(cd "$build" && pwd -P)/tests/mpi/libcount.so ;;
        @ATTACH) value=$(cd "$build" && pwd -P)/tests/mpi/libattach.so ;;
        @TOOL_FIRST) value=$(cd "$build" && pwd -P)/tests/mpi/libcount.so:$(cd "$build" && pwd -P)/libstridec.so ;;
        @VOTE) value=$(cd "$build" && pwd -P)/tests/mpi/libvote.so ;;
        @STREAMS) value=$(cd "$build" && pwd -P)/tests/mpi/libstreams.so ;;
        @ATTRIBUTES) value=$(cd "$build" && pwd -P)/tests/mpi/libattributes.so ;;
        @LATE) value=$(cd "$build" && pwd -P)/tests/mpi/liblate.so ;;
        @TWICE) value=$work/libstridec.so && cp "$build/libstridec.so" "$value" ;;
        @NEW) value=$(mktemp -d "$work/new.XXXXXX") ;;
        @FILE) value=$(mktemp -d "$work/new.XXXXXX")/file ;;
        @KEEP) value=$work/keep.$name && mkdir -p "$value" ;;
        esac
        export "${1%%=*}=$value"
        shift
    done
    if [ -n "$NODES" ] && ! on_nodes; then
        echo "# left out: this MPI starts no ranks on two nodes here"
        return 0
    fi
    ranks=${MPI_TEST_RANKS:-$2}
    shift 2
    case "$*" in
    *"=> warns") warns=yes ;;
    *"=> ends"*) ends=yes wanted=${*##*=> ends} wanted=${wanted# } ;;
    esac
    # shellcheck disable=SC2046
    set -- $(echo "$*" | sed 's/ *=> .*//')
    # With the slow unwinder an allocation takes a millisecond: too long for types in a thousand others, and to compile.
    # The leak sanitizer reads all that is mapped, and crashes on what a cut file leaves.
    case ${SAN:+$name}:$* in
    failing:*deep* | fallback:*) no_leaks fast_unwind_on_malloc=1 ;;
    shared:*cut*) no_leaks ;;
    esac
    start "$name" "$ranks" "$@" >"$work/out" 2>"$work/err"
    status=$?
    # The leak sanitizer itself crashes now and then, where threads come and go.
    if [ -n "$SAN" ] && grep -q 'LeakSanitizer has encountered a fatal error' "$work/out" "$work/err"; then
        no_leaks
        start "$name" "$ranks" "$@" >"$work/out" 2>"$work/err"
        status=$?
    fi
    raced >"$work/races" && echo "not ok races, the first of them below" >>"$work/out" && return 1
    [ $status = 124 ] && echo "timeout after $limit s" >>"$work/out"
    if [ -n "$ends" ]; then
        ended $status "$wanted" && return
        echo "not ok the end of the job: exit status $status" >>"$work/out"
        return 1
    fi
    [ $status != 0 ] && return 1
    grep -q '^# [1-9][0-9]* passed, 0 failed' "$work/out" || return 1
    # MPICH's word at the end, which some programs bring about without stridec too.
    if [ "$name" = errors ] && grep -q 'leaked handle pool' "$work/err"; then
        echo "not ok what was made was freed" >>"$work/out"
        return 1
    fi
    if [ -n "$warns" ] && [ -z "$MPI_TEST_HOST" ] && ! warned; then
        echo "not ok the warnings on standard error: none, or one twice" >>"$work/out"
        return 1
    fi
}

passed=0 failed=0
# Every program with lines is one. Compiling, caching, tables, what is mapped: of which one MPI shows all.
programs=$(cd "$here" && grep -l '^ \* run:' ./*.c | sed 's|^\./||; s|\.c$||' | if [ -z "$MPI_TEST_SECOND" ]; then cat
    else grep -vxE 'fallback|tuned|steps|large|churn|warm|mappings'; fi)
turn=all
[ $# -gt 0 ] || turn=${TEST_TURN:-all}
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $programs
# Those that need what an earlier line has left are run in each turn.
in_turn() {
    awk -v turn="$turn" -v first="$([ -n "$MPI_TEST_SECOND" ] && echo 1 || echo 2)" \
        'turn == "all" || NR <= first || (NR + turn) % 3 == 0 || /@KEEP/'
}
for name in "$@"; do
    run_lines "$name" | in_turn >"$work/lines.$name"
    [ -s "$work/lines.$name" ] || { echo "not ok $name: no run lines"; failed=$((failed + 1)); }
    while read -r line; do
        case $line in
        *"-n 4"*) [ -z "$MPI_TEST_SECOND" ] && [ "$(nproc)" -gt 2 ] || continue ;;
        # What the driver refuses is the same above both.
        NODES=*) [ -z "$MPI_TEST_SECOND$MPI_TEST_HOST" ] || continue ;;
        *@SCARCE*driver* | *SIMGPU_FAIL=* | *SIMGPU_NVRTC_FAIL=* | *SIMGPU_PEERS=* | *SIMGPU_CLOCK=*) [ -z "$MPI_TEST_SECOND" ] || continue ;;
        # The sanitizer's runtime has to be first, has nothing there twice, and ends where address space does.
        *@TOOL_FIRST* | *@TWICE* | *"--host limits" | *" span" | *" replaced") [ -z "${SAN:-}" ] || continue ;;
        esac
        case ${MPI_TEST_AWARE:-}$line in
        1*--host* | 1*STRIDEC_HOST=on* | 1*@AWARE* | 1*@ADDRESS* | 1*@MEMORY*) continue ;;
        esac
        # Kernels of two GPUs that go in step: the MPI carries one RTS header each.
        case $MPI_TEST_SECOND$name:$line in 1marks:*apart | 1marks:*"apart launches") continue ;; esac
        # MPICH's ranks never yield: three on two processors wait for the scheduler at each message. Groups of one pack nothing.
        case $MPI_TEST_SECOND$(nproc)$name:$line in
        *"--host packed" | *"--host some" | *" behind") ;;
        1[12]exchange*:*"=zerocopy -n 3") continue ;;
        1[12]windows:*"pt2pt -n 3") continue ;;
        1[12]halo:*"-n 3 one") continue ;;   # all neighbours' messages are there at once by luck alone
        1[12]exchange*:*"-n 3 packed" | \
        1[12]collectives:* | 1[12]reductions:* | 1[12]reduced_later:* | 1[12]neighbors:*)
            line=$(echo "$line" | sed 's/-n 3/-n 2/') ;;
        esac
        since=$(date +%s)
        # shellcheck disable=SC2086
        if (one_line "$name" $line) </dev/null; then
            passed=$((passed + 1))
            echo "ok $name $line"
            echo "# $(($(date +%s) - since)) s"
        else
            failed=$((failed + 1))
            echo "not ok $name $line"
            { grep -E '^(# TEST_SEED|not ok|timeout)' "$work/out"; head -40 "$work/races"; head -20 "$work/err"; } 2>/dev/null | sed 's/^/    /'
        fi
    done <"$work/lines.$name"
done
echo "# $MPICC: $passed passed, $failed failed"
[ $failed = 0 ]
