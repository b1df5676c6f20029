#!/bin/sh
# demo.sh: `make demo`: the halo exchange of examples/halo3d.c under stridec: on the GPU where there is one,
# else on the simulated GPU. Variables: BUILD, MPICC, CUDA_LIB.
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
export BUILD
halo=$BUILD/examples/halo3d
stridec=$BUILD/stridec
ranks=4
gpus=$("$BUILD/tests/gpu_count" 2>/dev/null || echo 0)

show() {
    echo "\$ mpirun -n $*"
    tests/mpirun.sh -n "$@"
}

mpi_is_cuda_aware() {
    ompi_info --parsable --all 2>/dev/null | grep -q mpi_built_with_cuda_support:value:true
}

if [ "$gpus" -eq 0 ]; then
    echo "No GPU found: $ranks ranks of an unmodified MPI program run on the simulated GPU. Times mean nothing."
    echo
    show $ranks "$stridec" run --sim --stats -- "$halo" 32 2 300 || exit
    echo
    echo "No GPU found: this ran on the simulated GPU (every halo cell was checked; times mean nothing)."
    exit 0
fi

echo "Found $gpus GPU(s): $ranks ranks of an unmodified MPI program run on real hardware."
echo
show $ranks "$stridec" run --stats -- "$halo" 256 2 20 || exit
echo
if mpi_is_cuda_aware; then
    echo "The same program on the plain MPI, which is CUDA-aware and packs these datatypes by itself:"
    show $ranks "$halo" 256 2 2 || echo "The plain MPI failed."
else
    echo "The plain MPI is not CUDA-aware: it cannot take GPU memory at all, so there is no time to set beside this."
fi
echo
echo "This ran on the GPU (every halo cell was checked)."
