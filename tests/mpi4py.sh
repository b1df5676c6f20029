#!/bin/bash
# mpi4py.sh BUILD [--all]: mpi4py's own test suite on the MPI of $MPICC, three times: on the MPI alone, preloaded, and
# preloaded with a CUDA driver loaded (the simulated one), so that stridec looks at each buffer and request. What passes
# on the MPI alone, on each rank, must pass with stridec; what fails or is skipped there is no concern of this test.
#
# Without --all: what MPI_Init, point-to-point, pack, requests, attributes and collectives of memory buffers need, at 1, 2
# and (on more than two processors) 4 ranks within a minute or two. With it: every module but the two below, many minutes
# where ranks outnumber cores.
# Wheel and sdist come from the Python index once, into $FETCHED; where it can't be reached, that is said, and all is ok.
build=${1:?usage: mpi4py.sh BUILD [--all]} all=$2
cd "$(dirname "$0")/.." || exit 1
build=$(cd "$build" && pwd)
export MPICC=${MPICC:-mpicc} BUILD=$build
. tests/fetched.sh
version=$mpi4py_version sdist=56860286dc45f20e8821e93cb06669e30462348bf866f685553fa4b712d58d02
limit=${MPI4PY_TIMEOUT:-$([ -n "$all" ] && echo 1200 || echo 150)}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM

python=$(python_with pip numpy || python_with pip) || { echo "ok mpi4py: left out: no Python with pip"; exit 0; }
if ! mpi4py_wheel "$python" "$build" "$work" ||
    ! fetch "$python" mpi4py "mpi4py-$version.tar.gz" $sdist --no-binary mpi4py "mpi4py==$version"; then
    echo "ok mpi4py: left out: the Python index can't be reached, or has no wheel for this Python: $(tail -1 "$FETCHED/mpi4py/log")"
    exit 0
fi
tar -xzf "$FETCHED/mpi4py/mpi4py-$version.tar.gz" -C "$work" || exit 1
suite=$work/mpi4py-$version/test

mpi=$MPI4PY_MPIABI
export STRIDEC_CACHE_DIR=$work/cache
# Ranks outnumber cores.
export OMPI_MCA_mpi_yield_when_idle=1 PYTHONDONTWRITEBYTECODE=1

# Spawned jobs wait minutes for each other in Open MPI 4.1; on two ranks MPICH 4.0's windows never wake a waiting one.
leave_out="-e test_spawn -e test_dynproc -x *TestCondition*World*"

modules() {   # RANKS
    [ -n "$all" ] && return
    # MPICH's ranks spin where Open MPI's yield: a message between four of them on two cores takes a turn of the scheduler.
    case $1 in
    4) echo "-i test_($([ "$mpi" = mpich ] && echo p2p_buf_matched || echo p2p_buf)|request|status)\\b" ;;
    *) echo "-i test_(p2p_buf|p2p_obj|pack|request|status|cco_buf|cco_nb_buf|cco_pr_buf|msgzero|attributes|threads|errhandler|exceptions)\\b" ;;
    esac
}

suite() {   # HOW RANKS: writes $work/HOW.RANKS.RANK
    local with=() cuda=
    case $1 in
    preloaded) with=("$build/stridec" run --) ;;
    simulated) with=("$build/stridec" run --sim --) cuda=--cuda ;;
    esac
    # shellcheck disable=SC2046,SC2086
    timeout -k 5 "$limit" tests/mpirun.sh -n "$2" ${san:-} "${with[@]}" "$python" tests/mpi4py_record.py "$work/$1.$2" \
        $cuda "$suite/main.py" -q --no-builddir $leave_out $(modules "$2") >"$work/$1.$2.log" 2>&1
}

# compare HOW RANKS: each test that passed on the MPI alone, by rank, passed.
compare() {
    local rank lost='' passed=0
    for ((rank = 0; rank < $2; rank++)); do
        touch "$work/$1.$2.$rank"
        lost+=$(awk 'NR == FNR { got[$1] = $2 ? $2 : "unfinished"; next }
                     $2 == "ok" && got[$1] != "ok" { print " " $1 " (" (got[$1] ? got[$1] : "not run") ")" }' \
            "$work/$1.$2.$rank" "$work/alone.$2.$rank" | head -5)
        passed=$((passed + $(grep -c ' ok ' "$work/alone.$2.$rank")))
    done
    if [ -z "$lost" ] && [ "$passed" -gt 0 ]; then
        echo "ok mpi4py $mpi $1, $2 ranks: the $passed tests that pass on the MPI alone"
    else
        echo "not ok mpi4py $mpi $1, $2 ranks, of $passed:$lost" | tr '\n' ' '
        echo
        grep -A25 -m1 -E '^Traceback|^stridec\[' "$work/$1.$2.log" | sed 's/^/    /' | head -30
        failed=1
    fi
}

failed=0
for ranks in 1 2 4; do
    [ $ranks = 4 ] && [ -z "$all" ] && [ "$(nproc)" -le 2 ] && continue
    start=$SECONDS
    suite alone $ranks
    [ -e "$work/alone.$ranks.0" ] || { echo "not ok mpi4py does not start: $(tail -1 "$work/alone.$ranks.log")"; exit 1; }
    for how in preloaded simulated; do
        suite $how $ranks
        compare $how $ranks
    done
    echo "# $ranks ranks: $((SECONDS - start)) s"
done
exit $failed
