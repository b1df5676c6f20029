#!/bin/bash
# flavour.sh STRIDEC: which of the installed builds serves a program: small programs linked to libraries with the names
# of MPIs, and builds under a prefix that hold nothing. One line a check, "ok NAME" or "not ok NAME".
# shellcheck disable=SC2016,SC2317
set -u
stridec=$(readlink -f "$1")
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset LD_PRELOAD
for name in $(env | sed -n 's/^\(\(OMPI\|PMI\|PMIX\|PRTE\|MPI\|MPI4PY\)_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
. tests/results.sh

# ---- MPIs, programs and builds ----

library() {   # FILE SONAME SOURCE [LINKED...]
    local file=$1 soname=$2 source=$3
    shift 3
    mkdir -p "$(dirname "$file")"
    echo "$source" | gcc -x c - -x none -shared -fPIC -o "$file" -Wl,-soname,"$soname" -Wl,--no-as-needed "$@"
}
program() {   # FILE LINKED...: prints what is preloaded
    local file=$1
    shift
    echo '#include <stdio.h>
#include <stdlib.h>
int main(void) { const char *p = getenv("LD_PRELOAD"); return puts(p ? p : "nothing") < 0; }' |
        gcc -x c - -x none -o "$file" -Wl,--no-as-needed "$@"
}
mpi() {   # FLAVOUR SONAME FUNCTION: the MPI, a program that needs it, a build for it in $work/all
    local to=$work/mpi/$1 build=$work/all/lib/stridec/$1
    library "$to/$2" "$2" "int $3(void) { return 0; }"
    program "$work/$1" "$to/$2" -Wl,-rpath,"$to"
    library "$build/libstridec.so" libstridec.so 'int nothing;' "$to/$2" -Wl,-rpath,"$to"
    printf '#!/bin/sh\necho "$0"\n' >"$build/stridec-mpi" && chmod +x "$build/stridec-mpi"
}
mpi openmpi-4 libmpi.so.40 MPI_Init
mpi openmpi-5 libmpi.so.40 MPI_Session_init
mpi mpich libmpich.so.12 MPI_Init
mpi mpi-abi libmpi_abi.so.0 MPI_Init
library "$work/mpi/mpich/libmpi.so.12" libmpi.so.12 'int MPI_Init(void) { return 0; }'
program "$work/intel" "$work/mpi/mpich/libmpi.so.12" -Wl,-rpath,"$work/mpi/mpich"
library "$work/mpi/mpich/libmpi_gnu.so.12" libmpi_gnu.so.12 'int MPI_Init(void) { return 0; }'
program "$work/vendor" "$work/mpi/mpich/libmpi_gnu.so.12" -Wl,-rpath,"$work/mpi/mpich"
library "$work/mpi/mpich/libmpichfort.so.12" libmpichfort.so.12 'int mpi_init_(void) { return 0; }'
program "$work/fortran" "$work/mpi/mpich/"libmpich{fort,}.so.12 -Wl,-rpath,"$work/mpi/mpich"
library "$work/mpi/old/libmpi.so.20" libmpi.so.20 'int MPI_Init(void) { return 0; }'
program "$work/old" "$work/mpi/old/libmpi.so.20" -Wl,-rpath,"$work/mpi/old"
# The program's own library needs the MPI; where that lies is in the environment alone.
library "$work/own/libapp.so" libapp.so 'int app;' "$work/mpi/openmpi-5/libmpi.so.40"
program "$work/indirect" "$work/own/libapp.so" -Wl,-rpath,"$work/own" -Wl,--allow-shlib-undefined \
    -Wl,-rpath-link,"$work/mpi/openmpi-5"
program "$work/plain"
printf '#!/bin/sh\nexec %s\n' "$work/plain" >"$work/script"
printf '#!%s\n' "$work/mpich" >"$work/by_mpich"
mkdir -p "$work/all/bin" "$work/path" && cp "$stridec" "$work/all/bin/stridec"
chmod +x "$work/script" "$work/by_mpich"
installed() {   # PREFIX FLAVOUR...: a prefix with these builds
    local prefix=$work/$1
    shift
    mkdir -p "$prefix/bin" "$prefix/lib/stridec" && cp "$stridec" "$prefix/bin/stridec"
    for flavour; do cp -r "$work/all/lib/stridec/$flavour" "$prefix/lib/stridec/"; done
}
installed mpichs mpich mpi-abi
installed lone openmpi-5

# serves FLAVOUR PREFIX [NAME=VALUE...] ARGUMENT...: that build of the prefix is preloaded. PATH has no mpirun.
serves() {
    local want=$1 prefix=$work/$2 variables=()
    shift 2
    while [[ ${1:-} == [A-Z]*=* ]]; do variables+=("$1") && shift; done
    /usr/bin/env PATH="$work/path" "${variables[@]}" "$prefix/bin/stridec" run "$@" 2>&1 | tee "$work/out"
    [ "$(tail -1 "$work/out")" = "$prefix/lib/stridec/$want/libstridec.so" ]
}
# refuses PATTERN PREFIX ...: one line says why.
refuses() {
    local want=$1
    shift
    ! serves none "$@" && [ "$(wc -l <"$work/out")" -eq 1 ] && grep -qE "^stridec [a-z]+: $want\$" "$work/out"
}

# ---- what the program needs ----
for flavour in openmpi-4 openmpi-5 mpich mpi-abi; do
    check "a program that needs $flavour" serves $flavour all "$work/$flavour"
    check "--mpi $flavour goes before what it needs" serves $flavour all --mpi $flavour "$work/openmpi-4"
done
check "the other name of MPICH's library" serves mpich all "$work/intel"
check "a vendor's name of MPICH's library" serves mpich all "$work/vendor"
check "a library for Fortran is not the MPI" refuses '.*/fortran needs libmpich.so.12, mpich: .*' lone "$work/fortran"
check "a library of the program's needs it" serves openmpi-5 all LD_LIBRARY_PATH="$work/mpi/openmpi-5" "$work/indirect"
check "the loader finds another version" serves openmpi-4 all LD_LIBRARY_PATH="$work/mpi/openmpi-4" "$work/indirect"
check "a script whose interpreter needs it" serves mpich all "$work/by_mpich"
check "a program on PATH" serves mpi-abi all PATH="$work" mpi-abi
check "a needed MPI goes before the launcher's" serves mpich all OMPI_COMM_WORLD_RANK=0 "$work/mpich"
check "none fits" refuses '.*/mpich needs libmpich.so.12, mpich: installed are builds for openmpi-5' lone "$work/mpich"
check "no flavour has that MPI" refuses '.*/old needs libmpi.so.20: installed are builds for mpich, mpi-abi' mpichs \
    "$work/old"
check "--mpi of none installed" refuses '--mpi mpich: installed are builds for openmpi-5' lone --mpi mpich "$work/plain"
check "--mpi of none that there is" refuses '--mpi lam: installed are builds for openmpi-5' lone --mpi lam "$work/plain"

# ---- what does not tell ----
check "of one build alone that one" serves openmpi-5 lone "$work/script"
check "Open MPI 4's launcher" serves openmpi-4 all OMPI_COMM_WORLD_RANK=0 "$work/script"
check "Open MPI 5's launcher" serves openmpi-5 all OMPI_COMM_WORLD_RANK=0 PRTE_LAUNCHED=1 "$work/script"
check "MPICH's launcher" serves mpich all MPI_LOCALNRANKS=2 "$work/script"
check "a rank of another MPI" refuses 'this is a rank of openmpi-4: installed are builds for mpich, mpi-abi' mpichs \
    OMPI_COMM_WORLD_RANK=0 "$work/script"
check "Slurm's PMI" serves mpich all PMI_RANK=0 "$work/script"
several="which MPI does this program use: $work/script[?] Say --mpi and one of openmpi-4, openmpi-5"
check "several fit" refuses "$several" all PMIX_RANK=0 "$work/script"
mv "$work/mpi/openmpi-5" "$work/mpi/away"
check "an MPI that is not there does not count" serves openmpi-4 all PMIX_RANK=0 "$work/script"
mv "$work/mpi/away" "$work/mpi/openmpi-5"
mkdir "$work/path4" "$work/pathm" "$work/pathi"
printf '#!/bin/sh\necho "mpirun (Open MPI) 4.1.4"\n' >"$work/path4/mpirun"
printf '#!/bin/sh\necho "HYDRA build details:"\n' >"$work/pathm/mpirun"
printf '#!/bin/sh\necho "Intel(R) MPI Library for Linux* OS, Version 2021.9"\n' >"$work/pathi/mpirun"
chmod +x "$work"/path?/mpirun
check "Open MPI's mpirun on PATH" serves openmpi-4 all PATH="$work/path4" "$work/script"
check "MPICH's mpirun on PATH" serves mpich all PATH="$work/pathm" "$work/script"
check "another mpirun of MPICH's family" serves mpich all PATH="$work/pathi" "$work/script"

# ---- Python: mpi4py loads its MPI later ----
mkdir -p "$work/py/mpi4py"
cat >"$work/py/mpi4py/__init__.py" <<'PY'
class rc: initialize = finalize = True
PY
cat >"$work/py/mpi4py/MPI.py" <<'PY'
import ctypes, os, mpi4py
assert mpi4py.rc.initialize is False
ctypes.CDLL(os.environ["MPI4PY_LIBMPI"])
PY
python=$(python3 -c "import sys; print(sys.executable)")
printf '#!/usr/bin/env python3\nimport os; print(os.environ["LD_PRELOAD"])\n' >"$work/job" && chmod +x "$work/job"
ln -s "$python" "$work/path/python3"
export PYTHONPATH=$work/py PYTHONDONTWRITEBYTECODE=1
check "Python loads MPICH" serves mpich all MPI4PY_LIBMPI="$work/mpi/mpich/libmpi.so.12" python3 "$work/job"
check "Python loads Open MPI 5" serves openmpi-5 all MPI4PY_LIBMPI="$work/mpi/openmpi-5/libmpi.so.40" "$work/job"
check "the standard ABI goes before MPICH by Python alone" serves mpi-abi all MPI_LOCALNRANKS=2 \
    MPI4PY_LIBMPI="$work/mpi/mpi-abi/libmpi_abi.so.0" "$work/job"
printf '#!/bin/sh\nexec %s "$@"\n' "$python" >"$work/python3" && chmod +x "$work/python3"
check "a script in place of Python" serves mpich all MPI4PY_LIBMPI="$work/mpi/mpich/libmpi.so.12" "$work/python3" \
    "$work/job"
mkdir "$work/planted" && cp -r "$work/py/mpi4py" "$work/planted"
echo 'open("ran", "w")' >>"$work/planted/mpi4py/__init__.py"
planted() {   # an mpi4py in the current folder is not run
    (cd "$work/planted" && PYTHONPATH="" serves any all "$work/job")
    [ ! -e "$work/planted/ran" ]
}
check "an mpi4py in the current folder" planted
check "Python without an MPI" refuses "which MPI .*" all "$work/job"

# ---- commands of stridec-mpi ----
serves_command() {   # FLAVOUR PREFIX [NAME=VALUE...] ARGUMENT...
    local want=$1 prefix=$work/$2 variables=()
    shift 2
    while [[ ${1:-} == [A-Z]*=* ]]; do variables+=("$1") && shift; done
    /usr/bin/env PATH="$work/path" "${variables[@]}" "$prefix/bin/stridec" "$@" >"$work/out" 2>&1
    cat "$work/out"
    grep -qxF "$prefix/lib/stridec/$want/stridec-mpi" "$work/out"
}
check "doctor is the launcher's" serves_command openmpi-5 all OMPI_COMM_WORLD_RANK=0 PRTE_LAUNCHED=1 doctor
check "tune is of the mpirun on PATH" serves_command openmpi-4 all PATH="$work/path4" tune
check "tune --mpi" serves_command mpi-abi all tune --mpi mpi-abi
undecided() { ! serves_command any all doctor && grep -q "^stridec doctor: which MPI[?] Say --mpi" "$work/out"; }
check "doctor does not guess" undecided
check "inspect takes any" serves_command openmpi-4 all inspect 'd(8)'
check "and prefers the launcher's" serves_command mpich all MPI_LOCALNRANKS=2 inspect 'd(8)'
check "but does not need it" serves_command mpich mpichs OMPI_COMM_WORLD_RANK=0 inspect 'd(8)'

# ---- a build folder ----
installed built
cp "$work/all/lib/stridec/mpich/libstridec.so" "$work/built/bin/"
preloaded=$("$work/built/bin/stridec" run "$work/openmpi-4")
check "a build folder has one" [ "$preloaded" = "$work/built/bin/libstridec.so" ]
check "and says so" refuses '--mpi mpich: a build folder holds a build for one MPI alone' built --mpi mpich \
    "$work/plain"
exit $failed
