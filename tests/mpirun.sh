#!/bin/sh
# mpirun.sh: `tests/mpirun.sh -n 4 prog args`: the mpirun that belongs to $MPICC (default mpicc), set up so that
# it also starts as root, with more ranks than cores, and in containers. MPIRUN overrides the choice, and --which prints it.
MPICC=${MPICC:-mpicc}

kind_of() {   # of an mpirun: openmpi, mpich or nothing
    case $("$1" --version 2>/dev/null | head -3) in
    *"Open MPI"* | *OpenRTE*) echo openmpi ;;
    *HYDRA* | *MPICH*) echo mpich ;;
    esac
}

choose() {
    # mpicc.mpich -> mpirun.mpich, /opt/x/bin/mpicc -> /opt/x/bin/mpirun
    base=${MPICC##*/}
    named=${MPICC%"$base"}$(echo "$base" | sed 's/mpicc/mpirun/')
    macros=$(echo '#include <mpi.h>' | "$MPICC" -E -dM -x c - 2>/dev/null | grep -E 'define (OPEN_MPI|MPICH_VERSION) ')
    case $macros in
    *OPEN_MPI*) want=openmpi ;;
    *MPICH*) want=mpich ;;
    *) want=$(kind_of "$named") ;;
    esac
    for run in "$named" "mpirun.$want" mpirun mpiexec; do
        command -v "$run" >/dev/null 2>&1 && [ "$(kind_of "$run")" = "$want" ] && { echo "$run"; return; }
    done
    echo "$named"
}

run=${MPIRUN:-$(choose)}
[ "${1:-}" != --which ] || { echo "$run"; exit; }
# Open MPI reads these; MPICH ignores them. What the user has set stays.
: "${OMPI_ALLOW_RUN_AS_ROOT=1}" "${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1}"
: "${OMPI_MCA_rmaps_base_oversubscribe=1}" "${OMPI_MCA_hwloc_base_binding_policy=none}"
: "${PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe}"
: "${OMPI_MCA_btl_vader_single_copy_mechanism=none}" "${OMPI_MCA_btl_base_warn_component_unused=0}"
command -v ssh >/dev/null 2>&1 || command -v rsh >/dev/null 2>&1 || : "${OMPI_MCA_plm_rsh_agent=/bin/false}"
for name in OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe \
    OMPI_MCA_hwloc_base_binding_policy PRTE_MCA_rmaps_default_mapping_policy \
    OMPI_MCA_btl_vader_single_copy_mechanism OMPI_MCA_btl_base_warn_component_unused OMPI_MCA_plm_rsh_agent; do
    eval "[ -z \"\${$name+x}\" ]" || export "${name?}"
done
# Last in the search for libraries: the CUDA runtime that the programs were linked with, where the system's
# linker does not know it.
for folder in ${CUDA_LIB:+"$CUDA_LIB"} "${BUILD:-build}/cuda/lib" /usr/local/cuda/lib64; do
    [ ! -d "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH
exec "$run" "$@"
