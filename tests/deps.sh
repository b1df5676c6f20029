#!/bin/sh
# deps.sh: makes sure that what a goal of the Makefile needs is installed.
#   tests/deps.sh [build|demo|check]       installs what is missing, or says in one line what to install
#   tests/deps.sh --missing build|...      prints that line only where something is missing; installs nothing
# Debian and Ubuntu: apt. Where no CUDA toolkit is found: NVIDIA's wheels, unpacked into $BUILD/cuda.
# Variables: MPICC, BUILD, CUDA_HOME, CC, LUA, LUA_INC, LUA_LIB as in the Makefile.
set -u
MPICC=${MPICC:-mpicc}
BUILD=${BUILD:-build}
only_list=
[ "${1:-}" = --missing ] && { only_list=1; shift; }
goal=${1:-build}

mpi_run=openmpi-bin mpi_dev=libopenmpi-dev
case $MPICC in *mpich*) mpi_run=mpich mpi_dev=libmpich-dev ;; esac

# What the caller names no package brings.
cc=${CC:-gcc} lua_usual=/usr/include/lua5.4 LUA_LIB=${LUA_LIB:-}
lua_inc=${LUA_INC:-$lua_usual} wrong=
[ "$lua_inc" = "$lua_usual" ] || [ -e "$lua_inc/lua.h" ] || wrong="LUA_INC=$lua_inc holds no lua.h"
[ -z "$LUA_LIB" ] || [ -e "$LUA_LIB" ] || wrong="LUA_LIB=$LUA_LIB is not there"
if [ -n "$wrong" ]; then
    if [ -n "$only_list" ]; then echo "$wrong"; else echo "deps: $wrong" >&2; fi
    exit 1
fi
lua_archive() {
    for lib in /usr/lib/*/liblua5.4.a /usr/lib/liblua5.4.a /usr/lib64/liblua5.4.a; do
        [ ! -e "$lib" ] || return 0
    done
    return 1
}

# goal | package | how to see that it is there: cmd NAME, header NAME, python MODULE
table() {
    cat <<TABLE
build gcc cmd ${cc%% *}
build libc6-dev header stdio.h
build make cmd make
build binutils cmd objcopy
build lua5.4 lua -
build liblua5.4-dev luadev -
build libxxhash-dev header xxhash.h
build uthash-dev header uthash.h
build $mpi_run mpirun -
build $mpi_dev mpicc -
demo g++ cmd g++
demo gfortran cmd gfortran
check libcmocka-dev header cmocka.h
check lua-busted cmd busted
check spin cmd spin
check mpich cmd mpirun.mpich
check libmpich-dev cmd mpicc.mpich
check python3-numpy python numpy
check python3-mpi4py python mpi4py
check python3-pip python pip
check valgrind cmd valgrind
TABLE
}

# Exit status 0 where the thing is there.
present() {
    case $1 in
    cmd) command -v "$2" ;;
    mpicc) command -v "${MPICC%% *}" ;;
    mpirun) command -v mpirun || command -v mpirun.openmpi || command -v mpirun.mpich ;;
    header) [ -e "/usr/include/$2" ] || [ -e "/usr/local/include/$2" ] || echo "#include <$2>" | $cc ${CPPFLAGS:-} -E -x c - ;;
    lua) command -v "${LUA:-lua5.4}" || command -v lua ;;
    luadev) [ -e "$lua_inc/lua.h" ] && { [ -n "$LUA_LIB" ] || lua_archive; } ;;
    python) /usr/bin/python3 -c "import $2" || python3 -c "import $2" ;;
    esac >/dev/null 2>&1
}

# Exit status 0 where a clang knows all GPUs of test_hip.c.
amd_clang() {
    for c in ${TEST_CLANG:-clang $(seq -f clang-%g 25 -1 15)}; do
        $c -x hip --cuda-device-only -nogpuinc -nogpulib --offload-arch=gfx942 -S -o /dev/null /dev/null && return 0
    done
    return 1
} >/dev/null 2>&1

wanted() {   # is a line of this goal part of what was asked for?
    case "$goal:$1" in *:build | demo:demo | check:demo | check:check) return 0 ;; esac
    return 1
}

missing_packages() {
    table | while read -r of package how what; do
        wanted "$of" && { present "$how" "$what" || printf '%s ' "$package"; }
    done
}

has_library() {   # PREFIX NAME
    for so in "$1"/lib64/lib"$2".so "$1"/lib/lib"$2".so "$1"/targets/*/lib/lib"$2".so "$1"/lib/*-linux-gnu/lib"$2".so; do
        [ -e "$so" ] && return 0
    done
    return 1
}

# A toolkit, or the unpacked wheels: headers that compile, and both libraries.
cuda_home() {
    nvcc=$(readlink -f "$(command -v nvcc 2>/dev/null)" 2>/dev/null)
    for p in ${CUDA_HOME:-${nvcc:+"${nvcc%/bin/nvcc}"} /usr/local/cuda} "$BUILD/cuda"; do
        for h in cuda.h cuda_runtime_api.h nvrtc.h crt/host_defines.h; do
            [ -e "$p/include/$h" ] || continue 2
        done
        { has_library "$p" cudart && has_library "$p" nvrtc; } || continue
        echo "$p"
        return 0
    done
    return 1
}

# The wheels of one release, so that headers and libraries agree. CUDA 12 serves drivers from 525 on.
wheels="nvidia-cuda-runtime-cu12==12.9.* nvidia-cuda-nvrtc-cu12==12.9.* nvidia-cuda-nvcc-cu12==12.9.*"

fetch_cuda() {
    mkdir -p "$BUILD" && t=$(mktemp -d "$BUILD/cuda.XXXXXX") || return 1
    trap 'rm -rf "$t"' EXIT
    echo "deps: no CUDA toolkit found: fetching NVIDIA's wheels into $BUILD/cuda"
    # shellcheck disable=SC2086
    "$python" -m pip download -q --retries 2 --no-deps --disable-pip-version-check -d "$t/whl" $wheels >"$t/log" 2>&1 ||
        { grep -m1 ERROR "$t/log" | sed 's/^/deps: pip: /' >&2; return 1; }
    "$python" - "$t" <<'PYTHON' || return 1
import glob, os, sys, zipfile
top = sys.argv[1]
for wheel in glob.glob(top + "/whl/*.whl"):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            part = name.split("/")
            if part[0] != "nvidia" or len(part) < 4 or part[2] not in ("include", "lib"):
                continue
            if ".alt." in name or name.endswith((".a", "/", ".py")):
                continue
            path = os.path.join(top, "out", *part[2:])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with z.open(name) as f, open(path, "wb") as g:
                g.write(f.read())
for name in ("cudart", "nvrtc"):
    full = glob.glob(f"{top}/out/lib/lib{name}.so.*")[0]
    os.symlink(os.path.basename(full), f"{top}/out/lib/lib{name}.so")
PYTHON
    rm -rf "$BUILD/cuda"
    mv "$t/out" "$BUILD/cuda"
}

as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
can_apt() {
    command -v apt-get >/dev/null 2>&1 && { [ -z "$as_root" ] || sudo -n true 2>/dev/null; }
}

apt_updated=
apt_install() {
    echo "deps: installing $*"
    # A broken third-party list must not stop us: what counts is whether the packages install.
    [ -n "$apt_updated" ] || $as_root apt-get update -qq >/dev/null 2>&1
    apt_updated=1
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1
}

packages=$(missing_packages)
cuda=$(cuda_home)
more=   # packages that not every release has, and without which less is tested
if [ "$goal" = check ] && [ -z "$only_list" ]; then
    amd_clang || more=clang-19
    for p in dh:debhelper zsh:zsh; do present cmd "${p%:*}" || more="$more ${p#*:}"; done
fi
# What is not tested without one of them.
left_out() {
    case $1 in
    clang-19) echo "AMD GPUs that no installed clang knows are" ;;
    debhelper) echo "the Debian packages are" ;;
    zsh) echo "completion in zsh is" ;;
    esac
}
# A browser is not installed for its one test.
tell_browser() {
    [ "$goal" != check ] || [ -n "$only_list" ] || present cmd chromium || present cmd chromium-browser ||
        present cmd google-chrome ||
        echo "deps: no chromium: the pages of \`stridec report\` are opened in no browser ('apt-get install chromium')"
}
[ -z "$packages$more" ] && [ -n "$cuda" ] && { tell_browser; exit 0; }

line="missing: ${packages% }"
[ -n "$cuda" ] || line="missing: ${packages:+${packages% } and }a CUDA toolkit (cuda.h, nvrtc.h, libcudart, libnvrtc)"
if [ -n "$only_list" ]; then
    echo "$line; 'tests/deps.sh $goal' installs it on Debian and Ubuntu, elsewhere install it by hand"
    exit 1
fi

if [ -n "$packages" ]; then
    can_apt || {
        # CUDA's wheels need it.
        case $cuda:$packages in :*python3-pip*) ;; :*) packages="${packages}python3-pip " ;; esac
        echo "deps: packages are missing: as root, on Debian and Ubuntu: apt-get install ${packages% }" >&2
        exit 1
    }
    log=$(mktemp)
    # shellcheck disable=SC2086
    apt_install $packages || { echo "deps: apt-get install $packages failed: $(grep -m1 '^E:' "$log")" >&2; exit 1; }
    rm -f "$log"
fi
for p in $more; do
    log=$(mktemp)
    { can_apt && apt_install "$p"; } || {
        why=$(grep -m1 '^E:' "$log")
        echo "deps: no $p${why:+ ($why)}: $(left_out "$p") left out of the tests" >&2
    }
    rm -f "$log"
done
if [ -z "$cuda" ]; then
    python=
    for p in python3 /usr/bin/python3; do
        [ -n "$python" ] || { "$p" -m pip --version >/dev/null 2>&1 && python=$p; }
    done
    if [ -z "$python" ]; then
        log=$(mktemp)
        can_apt && apt_install python3 python3-pip && python=/usr/bin/python3
        rm -f "$log"
    fi
    if [ -z "$python" ] || ! fetch_cuda; then
        echo "deps: missing: a CUDA toolkit (12 or 13): install one, or set CUDA_HOME, or let 'python3 -m pip' reach a package index" >&2
        exit 1
    fi
fi
tell_browser
exit 0
