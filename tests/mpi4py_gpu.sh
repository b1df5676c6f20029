#!/bin/bash
# mpi4py_gpu.sh BUILD FOLDER [OUT.md]: mpi4py's own tests with CuPy arrays, on a GPU and an MPI that need not be CUDA-aware,
# preloaded; what passes with host arrays on the MPI alone must pass. FOLDER holds mpi4py's sdist and its wheel for this
# Python (`pip download mpi4py==4.1.2`), since such machines may have no network. At 1 and 2 ranks; OUT.md gets the counts.
build=$(cd "${1:?usage: mpi4py_gpu.sh BUILD FOLDER [OUT.md]}" && pwd) folder=$(cd "${2:?}" && pwd) out=${3:-/dev/stdout}
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
for python in ${PYTHON:-} python3 /usr/bin/python3; do
    "$python" -c 'import cupy' 2>/dev/null && break
done
tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])') || exit 1
"$python" -m zipfile -e "$folder"/mpi4py-4.1.2-"$tag"-*.whl "$work/lib" && tar -xzf "$folder/mpi4py-4.1.2.tar.gz" -C "$work" || exit 1
suite=$work/mpi4py-4.1.2/test
# CuPy over NumPy 2 refuses to make unsigned bytes of -1; NumPy's own conversion does.
sed -i 's/self.array.fill(arg)/self.array.fill(__import__("numpy").array(arg).astype(typecode)[()])/
    s/cupy.asarray(arg, typecode)/cupy.asarray(__import__("numpy").array(arg).astype(typecode))/' "$suite/arrayimpl.py"
export PYTHONPATH=$work/lib BUILD=$build STRIDEC_CACHE_DIR=$work/cache PYTHONDONTWRITEBYTECODE=1
case $(ldd "$build/libstridec.so") in
*libmpich*) export MPI4PY_MPIABI=mpich ;;
*) export MPI4PY_MPIABI=openmpi ;;
esac
modules='-i test_(p2p_buf|p2p_buf_matched|pack|request|status|cco_buf|cco_buf_inter|cco_nb_buf|cco_ngh_buf|cco_vec|cco_pr_buf|msgzero|msgspec|rma|rma_nb|io|subclass)\b'

# Processes on one GPU take turns by the millisecond: where there are several, each rank has its own.
gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader | wc -l)
own_gpu=(bash -c 'CUDA_VISIBLE_DEVICES=$((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} % '"$gpus"')) exec "$@"' gpu)

run() {   # HOW RANKS ARGUMENTS...
    local how=$1 ranks=$2 with=()
    shift 2
    [ "$how" = alone ] || with=("$build/stridec" run --)
    # shellcheck disable=SC2086
    timeout -k 5 "${LIMIT:-500}" tests/mpirun.sh -n "$ranks" "${own_gpu[@]}" "${with[@]}" "$python" tests/mpi4py_record.py \
        "$work/$how.$ranks" "$suite/main.py" -q --no-builddir $modules "$@" >"$work/$how.$ranks.log" 2>&1
}

failed=0
{
    echo "# mpi4py 4.1.2's tests with CuPy arrays, preloaded"
    echo
    echo "$(nvidia-smi --query-gpu=name --format=csv,noheader | sed -n 1p); $(mpirun --version | sed -n 1p); CuPy $("$python" -c 'import cupy; print(cupy.__version__)');" \
        "$(date -u +%Y-%m-%d), \`tests/mpi4py_gpu.sh BUILD FOLDER\`."
    echo
    echo "| ranks | tests that pass with host arrays, MPI alone | of these, with CuPy arrays, preloaded |"
    echo "| ---: | ---: | ---: |"
} >"$work/report"
for ranks in 1 2; do
    run alone $ranks --no-cupy
    run preloaded $ranks --cupy
    expected=0 passed=0 lost=
    for ((rank = 0; rank < ranks; rank++)); do
        touch "$work/alone.$ranks.$rank" "$work/preloaded.$ranks.$rank"
        expected=$((expected + $(grep -c ' ok ' "$work/alone.$ranks.$rank")))
        lost+=$(awk 'NR == FNR { got[$1] = $2 ? $2 : "unfinished"; next }
                     $2 == "ok" && got[$1] != "ok" { print $1 " (" (got[$1] ? got[$1] : "not run") ")" }' \
            "$work/preloaded.$ranks.$rank" "$work/alone.$ranks.$rank")$'\n'
    done
    missing=$(grep -c . <<<"$lost")
    passed=$((expected - missing))
    echo "| $ranks | $expected | $passed |" >>"$work/report"
    if [ "$missing" -eq 0 ] && [ "$expected" -gt 0 ]; then
        echo "ok mpi4py with CuPy, $ranks ranks: $passed tests"
    else
        failed=1
        echo "not ok mpi4py with CuPy, $ranks ranks: $missing of $expected lost:"
        sort -u <<<"$lost" | head -40 | sed 's/^/    /'
        grep -A12 -m6 -E '^(ERROR|FAIL|stridec\[)' "$work/preloaded.$ranks.log" | cut -c1-200 | head -120
    fi
done
cp "$work/report" "$out"
exit $failed
