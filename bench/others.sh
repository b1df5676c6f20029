#!/bin/bash
# others.sh: runs programs that others wrote, above each MPI without and with stridec, and writes
# OUT_DIR/others-MACHINE.json and .md. `bench/others.sh --help` says what it needs and finds; this text is what it
# prints first.
#
# usage: bench/others.sh [--help] [OUT_DIR [FOLDER...]]
#
# OUT_DIR is bench/results by default. Programs are sought in the FOLDERs, and in the folders that variables name:
#   OSU_DIR    OSU micro-benchmarks (https://mvapich.cse.ohio-state.edu/benchmarks), configured with --enable-cuda;
#              osu_NAME in it or below
#   DDT_DIR    DDTBench (https://htor.inf.ethz.ch/research/datatypes/ddtbench): ddtbench of its C sources, its arrays
#              allocated by cudaMalloc and filled by copies. Its times are read from ddtbench.out, or from lines of a
#              build that prints "ddt CASE BYTES TYPE PACK REFERENCE" (medians in microseconds, "-": not measured), and
#              may print "ddtsum rankN right N wrong N" of its buffers. Such a build may read DDT_METHODS, of:
#              type,pack,ref
#   FFT_DIR    mpi4py-fft (https://github.com/mpi4py/mpi4py-fft): pencil.py; nothing is built. Needs mpi4py, numpy, and
#              cupy for device memory
#   HEAT_DIR   Heat (https://github.com/helmholtz-analytics/heat): the folder that holds the package heat; nothing is
#              built. Needs mpi4py and torch with CUDA
#   COMB_DIR   Comb (https://github.com/LLNL/Comb): comb, built with CUDA and MPI
#   TEMPI_DIR  TEMPI (https://github.com/cwpearson/tempi): bench-mpi-pingpong-nd and bench-halo-exchange, built with
#              CUDA. They run with TEMPI_DISABLE set: the MPI or stridec serves their calls
# All are built with the headers of the first of MPIS, or of one with the same ABI. A program that is missing is said
# so.
# Other variables:
#   MPIS       the mpicc of each MPI (default: $MPICC, or mpicc); "aware" is the one whose ompi_info says so, "stock"
#              others
#   BUILDS     the built tree of stridec for each of them (default: build; the last one serves all further MPIs)
#   MODES      of: alone cold warm (all): without stridec, with it and an empty cache, with it and what a run before
#              compiled
#   PROGRAMS   of: osu ddt fft heat comb tempi (all)
#   MEMORY     of: device host (both; without a GPU: host alone)
#   OSU, OSU_TYPES, OSU_HOST   names of OSU's programs (or empty): on contiguous device memory, on vectors there, on
#              host memory
#   OSU_SIZES  MIN:MAX (1024:4194304);  OSU_VECTOR  the type of -D (vect:16:8);  OSU_ITERATIONS (100)
#   DDT_ARGS   outer and inner loops (5 30);  FFT_SHAPE (256,260,256);  HEAT_N (4096);  COMB_SIZE (256_256_256);
#              TEMPI_HALO (256)
#   LIMIT      seconds for one program (60);  BUDGET  seconds after which no program is begun (none);  PYTHON (python3)
#   NAME       of the machine in the files' names (default: the GPU's, or host);  LOG  a file that keeps all output
set -u
cd "$(dirname "$0")/.." || exit 1
here=$PWD help=
if [ "${1:-}" = --help ]; then help=1; shift; fi
out=${1:-bench/results}
[ $# -eq 0 ] || shift
folders=()
for folder in "$@"; do   # programs run in folders of their own
    folder=$(cd "$folder" && pwd) || exit 1
    folders+=("$folder")
done
python=${PYTHON:-python3}
read -r -a mpis <<<"${MPIS:-${MPICC:-mpicc}}"
read -r -a builds <<<"${BUILDS:-build}"
: "${MODES:=alone cold warm}" "${PROGRAMS:=osu ddt fft heat comb tempi}" "${LIMIT:=60}" "${OSU_SIZES:=1024:4194304}"
: "${OSU=latency bw mbw_mr latency_persistent alltoall alltoallv alltoallw allgather allgatherv bcast gather gatherv
    scatter scatterv allreduce reduce ialltoall put_latency get_latency}"
: "${OSU_TYPES=latency alltoall alltoallv alltoallw allgather allgatherv bcast gather gatherv scatter scatterv
    ialltoall}"
: "${OSU_HOST=latency bw alltoall allgather bcast}" "${OSU_VECTOR:=vect:16:8}" "${OSU_ITERATIONS:=100}"
: "${DDT_ARGS:=5 30}" "${COMB_SIZE:=256_256_256}" "${TEMPI_HALO:=256}"
export FFT_SHAPE="${FFT_SHAPE:-256,260,256}" HEAT_N="${HEAT_N:-4096}" PYTHONDONTWRITEBYTECODE=1 TEMPI_DISABLE=1

cold=() last=()
gpus=$("${builds[0]}/tests/gpu_count" 2>/dev/null || echo 0)
: "${MEMORY:=$([ "$gpus" -gt 0 ] && echo device) host}"
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sed -n 1p)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | sed -n 1p)
name=${NAME:-$(echo "${gpu:-host}" | sed 's/.* //' | tr '[:upper:]' '[:lower:]')}

# seek DIR NAME: the path of the file in DIR or below, or in the FOLDERs.
seek() {
    local folder
    for folder in ${1:+"$1"} "${folders[@]}"; do
        case $folder in /*) ;; *) folder=$here/$folder ;; esac
        find -L "$folder" -maxdepth 8 -path "*/$2" ! -type d -print -quit 2>/dev/null | grep . && return 0
    done
    return 1
}
declare -A at
while read -r key dir file; do
    at[$key]=$(seek "${!dir:-}" "$file") || at[$key]=
done <<'END'
osu OSU_DIR osu_latency
ddt DDT_DIR ddtbench
fft FFT_DIR pencil.py
heat HEAT_DIR heat/__init__.py
comb COMB_DIR comb
pingpong TEMPI_DIR bench-mpi-pingpong-nd
halo TEMPI_DIR bench-halo-exchange
END
if [ -n "$help" ]; then
    sed -n '2,/^set -u/{/^#/{s/^# \{0,1\}//;p;}}' bench/others.sh
    echo
    for key in osu ddt fft heat comb pingpong halo; do echo "$key: ${at[$key]:-not found}"; done
    exit 0
fi
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
log=${LOG:-$scratch/log}
: >"$log" || exit 1
log=$(cd "$(dirname "$log")" && pwd)/$(basename "$log")

# note KEY VALUE...: a line of the log that others.py reads.
note() {
    local line="{" sep=
    while [ $# -gt 1 ]; do
        line+="$sep\"$1\": \"$(printf %s "$2" | tr '\n\t' '  ' | sed 's/[\\"]/\\&/g')\"" sep=", "
        shift 2
    done
    echo "@$line}" >>"$log"
}

# launch WORD...: two ranks of the MPI at hand, in a folder of their own; of $mode, which says whether with stridec.
launch() {
    local with=()
    [ "$mode" = alone ] || with=("$build/stridec" run --)
    rm -rf "$scratch/run" && mkdir "$scratch/run"
    (cd "$scratch/run" && BUILD=$build MPICC=$mpicc STRIDEC_CACHE_DIR=$scratch/cache LD_LIBRARY_PATH=$path \
        timeout -k 5 "$LIMIT" "$here/tests/mpirun.sh" -n 2 "${with[@]}" "$@") \
        >"$scratch/out" 2>"$scratch/err" </dev/null
}

# go PROGRAM CASE MEMORY WORD...: one program in $mode; what it wrote is appended to the log.
go() {
    local program=$1 case=$2 memory=$3 status begun=$SECONDS
    shift 3
    if [ -n "${BUDGET:-}" ] && [ "$SECONDS" -gt "$BUDGET" ]; then
        note left_out "$program $case, $mpi, $mode: past BUDGET"
        return
    fi
    launch "$@"
    status=$?
    echo "others: $program $case, $memory memory, $mpi, $mode: status $status, $((SECONDS - begun)) s" >&2
    note program "$program" case "$case" memory "$memory" mpi "$mpi" mode "$mode" status "$status" \
        error "$([ $status = 0 ] || grep -hv '^\(-*\|#.*\|\[.*\)$' "$scratch/err" "$scratch/out" | head -1 |
            cut -c1-160)"
    cat "$scratch/out" "$scratch"/run/ddtbench.out "$scratch"/run/*_summary 2>/dev/null | tr -d '\r' |
        sed 's/^/ /' >>"$log"
}

# modes PROGRAM CASE MEMORY ALONE COMMAND...: the command in each of MODES; not alone where ALONE is empty. The words of
# `last` end it, those of `cold` come before them in the mode cold.
modes() {
    local program=$1 case=$2 memory=$3 alone=$4 mode
    shift 4
    rm -rf "$scratch/cache"
    for mode in $MODES; do
        case $mode in
        alone) [ -z "$alone" ] || go "$program" "$case" "$memory" "$@" "${last[@]}" ;;
        cold) go "$program" "$case" "$memory" "$@" "${cold[@]}" "${last[@]}" ;;
        warm)
            [ -e "$scratch/cache" ] || launch "$@" "${last[@]}"
            go "$program" "$case" "$memory" "$@" "${last[@]}" ;;
        *) go "$program" "$case" "$memory" "$@" "${last[@]}" ;;
        esac
    done
}

# What an MPI does alone with device memory: all if it is CUDA-aware, else nothing.
aware() { [ "$mpi" = aware ] && echo 1; }
only_alone() { echo " $MODES " | grep -o ' alone '; }

# osu NAME MEMORY [TYPE]
osu() {
    local words=() i=$OSU_ITERATIONS skip=20 alone=1 program case="$1${3:+ $3}" cold=(-i 5 -x 0) last=()
    program=$(seek "$(dirname "${at[osu]}")" "osu_$1") || { note left_out "osu_$1: not found"; return; }
    case $1 in
    *bw*) i=$((i / 5 + 1)) skip=5 ;;
    put_latency | get_latency) words+=(-w create) ;;
    *) words+=(-z50) ;;
    esac
    case $1 in *reduce*) words+=(-T mpi_float) ;; esac   # sums of characters overflow in its own check
    [ -z "${3:-}" ] || words+=(-D "$3")
    [ "$2" = host ] || words+=(-d cuda)
    [ "$2" = host ] || case $1 in latency* | bw | put_latency | get_latency) last=(D D) ;; esac
    words+=(-m "$OSU_SIZES")
    [ "$2" = host ] || alone=$(aware)
    # Types and one-sided calls it can't check.
    [[ -n "${3:-}" || $1 == [pg]?t_latency ]] || MODES=check modes osu "$case" "$2" 1 "$program" "${words[@]}" -c -i 5 -x 2
    modes osu "$case" "$2" "$alone" "$program" "${words[@]}" -i "$i" -x "$skip"
}

run_osu() {
    local name
    case " $MEMORY " in *" device "*)
        for name in $OSU; do osu "$name" device; done
        for name in $OSU_TYPES; do osu "$name" device "$OSU_VECTOR"; done ;;
    esac
    case " $MEMORY " in *" host "*)
        for name in $OSU_HOST; do osu "$name" host; done ;;
    esac
}

# shellcheck disable=SC2086,SC2046
run_ddt() {
    case " $MEMORY " in *" device "*) ;; *) note left_out "ddt: no device memory"; return ;; esac
    modes ddt "" device "" "${at[ddt]}" $DDT_ARGS
    # Alone a type may take seconds: the contiguous reference is what counts.
    [ -z "$(aware)" ] || DDT_METHODS=ref MODES=$(only_alone) modes ddt "" device 1 "${at[ddt]}" $DDT_ARGS
}

run_fft() {
    local program=("$python" "$here/bench/others_python.py" fft "$(dirname "${at[fft]}")")
    "$python" -c 'import mpi4py, numpy' 2>/dev/null || { note left_out "fft: no mpi4py and numpy"; return; }
    case " $MEMORY " in *" host "*) modes fft "" host 1 "${program[@]}" host ;; esac
    case " $MEMORY " in *" device "*)
        "$python" -c 'import cupy' 2>/dev/null || { note left_out "fft on device memory: no cupy"; return; }
        modes fft "" device "" "${program[@]}" device
        modes fft "" device "$(aware)" "${program[@]}" contiguous ;;
    esac
}

run_heat() {
    local program=("$python" "$here/bench/others_python.py" heat "$(dirname "$(dirname "${at[heat]}")")")
    "$python" -c 'import mpi4py, torch' 2>/dev/null || { note left_out "heat: no mpi4py and torch"; return; }
    case " $MEMORY " in *" device "*)
        modes heat "" device "$(aware)" "${program[@]}" device
        modes heat "staged by itself" device 1 "${program[@]}" staged ;;
    *) modes heat "" host 1 "${program[@]}" host ;;
    esac
}

run_comb() {
    local words=("$COMB_SIZE" -divide 2_1_1 -periodic 1_1_1 -ghost 1_1_1 -vars 3 -cycles 20 -comm disable all
        -comm enable mpi -exec disable all -exec enable cuda -memory disable all
        -memory enable cuda_device -cuda_aware_mpi)
    case " $MEMORY " in *" device "*) ;; *) note left_out "comb: no device memory"; return ;; esac
    modes comb "" device "" "${at[comb]}" "${words[@]}" -exec enable mpi_type
    # Alone types may take seconds.
    [ -z "$(aware)" ] || MODES=$(only_alone) modes comb "" device 1 "${at[comb]}" "${words[@]}"
}

run_tempi() {
    case " $MEMORY " in *" device "*) ;; *) note left_out "tempi: no device memory"; return ;; esac
    [ -z "${at[pingpong]}" ] || modes tempi "ping-pong" device "" "${at[pingpong]}"
    [ -z "${at[halo]}" ] || modes tempi "halo" device "" "${at[halo]}" 20 "$TEMPI_HALO"
}

note gpu "${gpu:-$([ "$gpus" -gt 0 ] && echo "unnamed GPU")}" gpus "$gpus" driver "$driver" cores "$(nproc)" \
    date "$(date -u +%Y-%m-%dT%H:%M:%SZ)" stridec "$("${builds[0]}/stridec" --version 2>/dev/null)" \
    command "bench/others.sh; MODES=$MODES PROGRAMS=$PROGRAMS MEMORY=$MEMORY OSU_SIZES=$OSU_SIZES DDT_ARGS=$DDT_ARGS"
at[tempi]=${at[pingpong]}${at[halo]}
for program in $PROGRAMS; do
    [ -n "${at[$program]:-}" ] || { note left_out "$program: not found"; echo "others: $program: not found" >&2; }
done
for i in "${!mpis[@]}"; do
    mpicc=${mpis[$i]} build=$(cd "${builds[$i]:-${builds[-1]}}" && pwd) path=${LD_LIBRARY_PATH:-}
    bin=$(dirname "$(command -v "$mpicc" || echo "$mpicc")")
    case $mpicc in */*) path=${bin%/bin}/lib${path:+:$path} ;; esac
    mpi=stock
    if LD_LIBRARY_PATH=$path "$bin/ompi_info" --parsable --all 2>/dev/null |
        grep -q mpi_built_with_cuda_support:value:true; then mpi=aware; fi
    note mpi "$mpi" version "$(LD_LIBRARY_PATH=$path MPICC=$mpicc tests/mpirun.sh --version 2>&1 |
        sed -n '/[0-9]\.[0-9]/{p;q;}')"
    for program in $PROGRAMS; do
        [ -z "${at[$program]:-}" ] || "run_$program"
    done
done
"$python" bench/others.py "$log" "$out/others-$name.json" "$out/others-$name.md"
