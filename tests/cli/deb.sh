#!/bin/bash
# deb.sh BUILD MPICH_BUILD: makes the Debian packages of a copy of this tree, with what has been built for each MPI, and
# runs a program by what they hold.
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "$1") mpich=$(realpath "$2")
left_out() { echo "NO PACKAGES $1: the Debian packages are left out"; echo "ok the Debian packages # SKIP $1"; exit; }
command -v dh >/dev/null && command -v dpkg-buildpackage >/dev/null || left_out "debhelper is not there"
command -v mpicc.openmpi >/dev/null && command -v mpicc.mpich >/dev/null || left_out "not both MPIs are Debian's"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/results.sh

# -d: who builds may have dependencies of his own. -nc: what is built is not cleaned.
packages() (
    mkdir "$work/tree" && git ls-files -z | tar c --null -T - | tar x -C "$work/tree" && cd "$work/tree" || return 1
    ln -s "$build" build && ln -s "$mpich" build-mpich
    env -u MAKEFLAGS -u MAKEOVERRIDES -u MFLAGS -u BUILD -u SAN BUILD_openmpi=build BUILD_mpich=build-mpich \
        DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage -us -uc -b -d -nc
)
check "the Debian packages" packages
for name in stridec stridec-openmpi stridec-mpich; do
    check "unpacks $name" dpkg-deb -x "$work/${name}_$(<VERSION)_$(dpkg --print-architecture).deb" "$work/root"
done
depends() {   # depends PACKAGE PATTERN NOT: on what its libraries need, not on the other MPI
    dpkg-deb -f "$work/$1"_*.deb Depends | tee "$work/depends"
    grep -q "$2" "$work/depends" && ! grep -q "$3" "$work/depends"
}
check "the one for Open MPI needs that" depends stridec-openmpi libopenmpi libmpich
check "the one for MPICH needs that" depends stridec-mpich libmpich libopenmpi
runs() {
    local m
    for m in openmpi mpich; do
        "mpicc.$m" -I "$work/root/usr/include" -o "$work/here" -x c - -ldl <<'C' || return 1
#include <stdio.h>
#include <stridec.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    printf("here: %d\n", stridec_present());
    return MPI_Finalize();
}
C
        MPICC=mpicc.$m tests/mpirun.sh -n 1 "$work/root/usr/bin/stridec" run --sim -- "$work/here" >"$work/said" 2>&1
        grep -x 'here: 1' "$work/said" || { cat "$work/said"; return 1; }
    done
}
check "programs of both MPIs run by what they hold" runs
consumers() {   # name no library that no package holds
    [ -d "$work/root/usr/share/pkgconfig" ] && [ -d "$work/root/usr/share/cmake" ] || return 1
    ! grep -r 'libstridec\.so' "$work/root/usr/share/"{pkgconfig,cmake} || [ -e "$work/root/usr/lib/libstridec.so" ]
}
check "files for pkg-config and CMake name what is there" consumers
check "they have a man page" test -e "$work/root/usr/share/man/man1/stridec-run.1.gz"
exit $failed
