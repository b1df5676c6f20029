#!/bin/bash
# examples.sh BUILD [FILE...]: runs the examples on the simulated GPU as the lines `run:` in their opening comments say,
# each of which must tell "verified": by default those in C and Fortran; tests/python/run.sh runs the others, by PYTHON.
# examples.sh BUILD --around: what lies around them: the CMake project, the job script, the Containerfile, and the README.
build=${1:?usage: examples.sh BUILD [FILE...] | --around}
cd "$(dirname "$0")/.." || exit 1
build=$(cd "$build" && pwd)
shift
export MPICC=${MPICC:-mpicc} BUILD=$build
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
export STRIDEC_CACHE_DIR=${STRIDEC_CACHE_DIR:-$work/cache}
leaks=''
. tests/results.sh

run_lines() {   # FILE: of its opening comment
    sed -n '/^#include\|^program\|^import/q; s/^[ *!]*run: //p' "$1"
}

# run_line LINE: as it stands there, with this build, on the simulated GPU.
run_line() {
    local word words=() with=''
    for word in $1; do
        case $word in
        mpirun) words+=(tests/mpirun.sh) ;;
        stridec)
            with=1
            # shellcheck disable=SC2206
            words+=(${san:-} ${san:+$leaks} "$build/stridec")
            ;;
        run) words+=(run --sim) ;;
        python3) words+=("${PYTHON:-python3}") ;;
        build/*) words+=("$build/${word#build/}") ;;
        *) words+=("$word") ;;
        esac
    done
    [ -n "$with" ] || export LD_LIBRARY_PATH=$build/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    timeout -k 5 "$([ -n "${san:-}" ] && echo 300 || echo 100)" "${words[@]}"
}

programs() {   # FILE...
    local file line lines
    for file in "$@"; do
        case $file in *.c) leaks='' ;; *) leaks=ASAN_OPTIONS=detect_leaks=0 ;; esac
        lines=$(run_lines "$file")
        if [ -z "$lines" ]; then
            head -4 "$file" | grep -q 'no program' || { echo "not ok $file does not say how it is run"; failed=1; }
            continue
        fi
        while read -r line; do
            (run_line "$line") >"$work/out" 2>&1 </dev/null && grep -q verified "$work/out"
            result "$line"
        done <<<"$lines"
    done
}

# The CMake project, without stridec and with the header where pkg-config finds it.
cmake_project() {
    command -v cmake >/dev/null || { echo "ok CMake project: left out: no cmake"; return; }
    export PKG_CONFIG_PATH=$work
    cmake -S examples -B "$work/cmake" -DMPI_C_COMPILER="$MPICC" >"$work/out" 2>&1
    if grep -q 'Could NOT find CUDAToolkit' "$work/out"; then
        echo "ok CMake project: left out: cmake finds no CUDA toolkit"
        return
    fi
    cmake --build "$work/cmake" >>"$work/out" 2>&1 && [ ! -e "$work/cmake/columns" ] &&
        LD_LIBRARY_PATH=$build/sim run_line "mpirun -n 2 stridec run -- $work/cmake/send_column" 2>&1 | grep -q verified
    result "CMake project"
    command -v pkg-config >/dev/null || { echo "ok CMake project with stridec.h: left out: no pkg-config"; return; }
    printf 'Name: stridec\nDescription: -\nVersion: 1\nCflags: -I"%s"\nLibs: -ldl\n' "$build/include" \
        >"$work/stridec.pc"
    cmake -S examples -B "$work/cmake" >"$work/out" 2>&1 && cmake --build "$work/cmake" >>"$work/out" 2>&1 &&
        run_line "mpirun -n 2 stridec run -- $work/cmake/columns 64 16 2" >>"$work/out" 2>&1
    result "CMake project with stridec.h"
}

# The job script as Slurm would start it, where srun starts two ranks here, and `stridec tune` is only told of.
job() {
    mkdir -p "$work/bin" "$work/home/.config/stridec"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho "srun $*" >>%s/started\nwhile [ "$1" != "${1#-}" ]; do shift; done
[ "$2" != tune ] || exit 0\nexec %s/tests/mpirun.sh -n 2 "$@"\n' "$work" "$PWD" >"$work/bin/srun"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\n[ "$1" = run ] || exit 1\nshift\nexec %s %s/stridec run --sim "$@"\n' "${san:-}" "$build" \
        >"$work/bin/stridec"
    chmod +x "$work"/bin/*
    local run=(env -u XDG_CONFIG_HOME HOME="$work/home" PATH="$work/bin:$PATH" timeout -k 5 100
        examples/job.slurm "$build/examples/halo3d" 16 2 3)
    "${run[@]}" >"$work/out" 2>&1 && grep -q 'halo3d: verified' "$work/out"
    result "job script"
    cp "$work/started" "$work/out"
    [ "$(grep -c '^srun --mpi=pmix .*--gpus-per-node=[1-9] ' "$work/started")" = 3 ] &&
        [ "$(sed -n 's/.*stridec \(run\|tune.*\).*/\1/p' "$work/started" | xargs)" = "tune tune --host run" ] &&
        grep -q -- '--nodes=1 .*tune --host' "$work/started"
    result "job script: tunes between two nodes and within one, with GPUs, by PMIx"
    : >"$work/home/.config/stridec/tune" && rm "$work/started"
    "${run[@]}" >"$work/out" 2>&1 && ! grep tune "$work/started"
    result "job script with a table"
    ! examples/job.slurm >"$work/out" 2>&1 && grep -q '^usage' "$work/out"
    result "job script without a program"
}

# Each RUN of the Containerfile is a shell's line, and each file of these sources that it takes is there.
containerfile() {
    sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' examples/Containerfile | sed -n 's/^RUN //p' >"$work/runs"
    [ "$(wc -l <"$work/runs")" -gt 3 ] && bash -n "$work/runs" 2>"$work/out"
    result "Containerfile: its shell lines"
    local name bad=''
    while read -r name; do
        [ -e "$name" ] || [ -x "$build/${name#/build/}" ] || bad+=" $name"
    done < <(grep -oE '(^| )(tests|spec|examples|/build/examples)/[A-Za-z0-9_.]+' examples/Containerfile)
    [ -z "$bad" ] || echo "not there:$bad" >"$work/out"
    [ -z "$bad" ]
    result "Containerfile: the files that it takes"
}

# What is written of stridec's commands, options and variables is what it has; the README names each example.
words() {
    local command rest option name bad=''
    while read -r command rest; do
        "$build/stridec" help "$command" >"$work/help" 2>&1 || bad+=" [stridec $command]"
        while read -r option; do
            grep -qE -- "(^|[^a-z-])$option\b" "$work/help" || bad+=" [stridec $command $option]"
        done < <(grep -oE '^[^|&]*' <<<"${rest%% -- *}" | grep -oE '(^| )--?[a-z]+')
    done < <(cat examples/* | tr -d '",' | grep -oE '\bstridec (run|gen|tune|inspect|doctor)\b[^;`).]*' |
        sed 's/^stridec //')
    while read -r name; do
        grep -qw "$name" runtime/base/env.c runtime/api/stridec.h || bad+=" $name"
    done < <(grep -ohE '\bSTRIDEC_[A-Z_]+' examples/* | sort -u)
    for name in examples/*; do
        name=${name#examples/}
        case $name in README.md | examples.mk) ;; *) grep -q "($name)" examples/README.md || bad+=" [README: $name]" ;; esac
    done
    [ -z "$bad" ] || echo "unknown:$bad" >"$work/out"
    [ -z "$bad" ]
    result "the commands, options, variables and files that examples and README name"
}

case ${1:-} in
--around)
    cmake_project
    job
    containerfile
    words
    ;;
'') programs examples/*.c examples/*.f90 ;;
*) programs "$@" ;;
esac
exit $failed
