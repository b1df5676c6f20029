#!/bin/bash
# run.sh BUILD: the package of packaging/python against NumPy on the MPI of $MPICC, in host memory and on the simulated
# GPU, by the system's mpi4py and by that of the Python index, where they are for that MPI and can be had.
build=${1:?usage: run.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
build=$(cd "$build" && pwd)
export MPICC=${MPICC:-mpicc} BUILD=$build
. tests/fetched.sh
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
export STRIDEC_CACHE_DIR=$work/cache PYTHONDONTWRITEBYTECODE=1 OMPI_MCA_mpi_yield_when_idle=1
stand_in=:$PWD/tests/python/stand_in
export PYTHONPATH=$PWD/packaging/python$stand_in:$PWD/examples
unset PYTHON
failed=0

# examples: the programs of examples/ in Python, once: with stand-ins for CuPy and PyTorch; without, they must say so.
examples() {
    local module name without=${PYTHONPATH/$stand_in/}
    export PYTHON=$python
    tests/examples.sh "$build" examples/cupy_halo.py examples/strided_torch.py || failed=1
    PYTHONPATH=$without tests/examples.sh "$build" examples/halo3d.py || failed=1
    for module in cupy:cupy_halo torch:strided_torch; do
        name=${module#*:}.py module=${module%:*}
        if PYTHONPATH=$without "$python" -c "import $module" 2>/dev/null; then continue; fi
        if PYTHONPATH=$without tests/mpirun.sh -n 1 "$python" "examples/$name" 2>&1 | grep -q "^$name: left out: "; then
            echo "ok $name without $module says so"
        else
            echo "not ok $name without $module says so"
            failed=1
        fi
    done
}

ranks() {   # NAME LAST COMMAND...: on 2 ranks; the last line of all must tell "ok LAST"
    local name=$1 last=$2
    shift 2
    # shellcheck disable=SC2086
    if ! timeout -k 5 100 tests/mpirun.sh -n 2 ${san:-} ${san:+ASAN_OPTIONS=detect_leaks=0} "$@" >"$work/out" 2>&1 ||
        ! grep -q "^ok $last" "$work/out"; then
        grep -v '^ok ' "$work/out" | head -20
        echo "not ok $name: does not end as it should"
        failed=1
    fi
    sed -n "s/^\(ok\|not ok\) /\1 $name: /p" "$work/out"
}

tests() {   # NAME: with the mpi4py that Python finds
    local run=("$build/stridec" run --sim -- "$python") order=tests/python/order.py
    ranks "$1" 'MPI.Finalize' "${run[@]}" tests/python/datatype.py
    ranks "$1, in stream order" 'all of order.py' "${run[@]}" $order
    ranks "$1, in stream order, disabled" 'all of order.py' env STRIDEC_DISABLE=1 "${run[@]}" $order absent
    ranks "$1, in stream order, without the library" 'all of order.py' "$python" $order absent alone
    [ -n "${PYTHON:-}" ] || examples
}

mpi_of() { ldd "$1" 2>/dev/null | awk '$1 ~ /^libmpi(ch)?\.so/ { print $3; exit }'; }
module='import importlib.util; print(importlib.util.find_spec("mpi4py.MPI").origin)'
python=$(python_with mpi4py numpy) && case $(mpi_of "$("$python" -c "$module")") in
"$(mpi_of "$build/libstridec.so")")
    tests "mpi4py $("$python" -c 'import mpi4py; print(mpi4py.__version__)')" ;;
esac
if ! python=$(python_with pip numpy); then
    echo "ok mpi4py $mpi4py_version: left out: no Python with pip and NumPy"
elif mpi4py_wheel "$python" "$build" "$work"; then
    tests "mpi4py $mpi4py_version"
else
    echo "ok mpi4py $mpi4py_version: left out: the Python index can't be reached, or has no wheel for this Python"
fi
exit $failed
