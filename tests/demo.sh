#!/bin/sh
# demo.sh: `make demo`: the halo exchange of examples/halo3d.c under stridec: on the GPU where there is one,
# else on the simulated GPU. Ends with "verified", a summary, and what to do next. Variables: BUILD, MPICC, CUDA_LIB,
# EXCHANGES.
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
export BUILD
halo=$BUILD/examples/halo3d
stridec=$BUILD/stridec
table=$BUILD/demo.txt
ranks=4
gpus=$("$BUILD/tests/gpu_count" 2>/dev/null || echo 0)
since=$(date +%s)
trap 'rm -f "$table.out"' EXIT

show() {   # RANKS COMMAND...: standard error to $table
    echo "\$ mpirun -n $*"
    tests/mpirun.sh -n "$@" 2>"$table" >"$table.out"
    status=$?
    cat "$table.out"
    if [ $status -ne 0 ]; then
        cat "$table"
        echo
        echo "NOT VERIFIED: the program failed, status $status; \`$stridec doctor\` says what may be wrong"
        exit 1
    fi
}

mpi_is_cuda_aware() {
    ompi_info --parsable --all 2>/dev/null | grep -q mpi_built_with_cuda_support:value:true
}

from() {   # EXPRESSION: of what the program printed
    sed -nE "s/^halo3d: $1.*/\\1/p" "$table.out"
}

did() {   # what stridec did: a line of the run's statistics
    sed -nE 's/^  ([0-9]+ datatypes?: by stridec .*)/\1/p' "$table"
}

if [ "$gpus" -eq 0 ]; then
    gpu="simulated: no GPU was found, and times mean nothing"
    show $ranks "$stridec" run --sim --stats -- "$halo" 32 2 "${EXCHANGES:-300}"
else
    gpu=$(COLUMNS=500 "$stridec" doctor | sed -nE 's/^ok +gpu 0 +(.*)/\1/p')
    [ "$gpus" -eq 1 ] || gpu="$gpus of them, the first: $gpu"
    show $ranks "$stridec" run --stats -- "$halo" 256 2 "${EXCHANGES:-20}"
fi

echo
echo verified
echo "  ran      an unmodified MPI program, examples/halo3d: $(from '(.*), each')"
echo "  GPU      $gpu"
echo "  checked  $(from 'checked (.*)')"
echo "  took     $(($(date +%s) - since)) s; exchanges: $(from 'exchange: (.*)')"
echo "  stridec  $(did)"
echo "           all of it: $table"
if [ "$gpus" -gt 0 ] && mpi_is_cuda_aware; then
    plain=$(tests/mpirun.sh -n $ranks "$halo" 256 2 2 2>&1 | sed -n 's/^halo3d: exchange: //p')
    echo "  without  ${plain:-the plain MPI, which is CUDA-aware, failed}"
elif [ "$gpus" -gt 0 ]; then
    echo "  without  the plain MPI is not CUDA-aware: it can't take GPU memory at all"
fi
echo
echo "next"
echo "  $stridec doctor                             what this system has, what is missing, and what mends it"
echo "  mpirun -n 4 $stridec run --stats -- ./app   your program, and what stridec did for it"
echo "  mpirun -n 2 $stridec tune                   measure this system, once"
