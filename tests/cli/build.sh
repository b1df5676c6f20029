#!/bin/bash
# build.sh: what the Makefile and deps.sh say before anything is built: paths that can't work, variables that name Lua,
# packages that are missing or that a release lacks; and that clang, where there is one, has nothing to say of the
# sources. Builds nothing.
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/results.sh
# says STATUS PATTERN COMMAND...: it ends so, and a line matches.
says() {
    local status=$1 pattern=$2 got
    shift 2
    "$@" >"$work/said" 2>&1
    got=$?
    cat "$work/said"
    [ "$got" -eq "$status" ] || { echo "status $got, expected $status"; return 1; }
    grep -qE -- "$pattern" "$work/said"
}
# Without what a make above this one has set.
plain_make() { env -u MAKEFLAGS -u MAKEOVERRIDES -u MFLAGS -u LUA_INC -u LUA_LIB make --no-print-directory -n "$@"; }

mkdir "$work/a:b" "$work/lua" "$work/s p"
cp Makefile "$work/a:b"
check "a folder with a colon" says 2 "CURDIR=.*/a:b: stridec can't be built in or installed into a path with :" \
    plain_make -C "$work/a:b"
for name in BUILD CUDA_HOME LUA_INC LUA_LIB; do
    check "$name with a space" says 2 "$name=/x y: stridec can't be built from or in a path with a space" \
        plain_make "$name=/x y"
done
for name in PREFIX DESTDIR LIBDIR; do
    check "$name with a colon" says 2 "$name=/x:y: stridec can't be .* installed into a path with :" \
        plain_make "$name=/x:y"
done

foreign() { LIBDIR=/x:/y plain_make all >/dev/null; }
check "an environment's LIBDIR is another thing" foreign

# A toolkit in the build folder; the sources in a folder with a space.
mkdir -p "$work/cuda/include/crt" "$work/cuda/lib" "$work/s p/b"
touch "$work"/cuda/include/{cuda,cuda_runtime_api,nvrtc,crt/host_defines}.h "$work"/cuda/lib/lib{cudart,nvrtc}.so
ln -s "$PWD"/[!b]* "$PWD/bench" "$work/s p" && ln -s "$work/cuda" "$work/s p/b"
own_cuda() { plain_make -C "$work/s p" BUILD=b CUDA_HOME=/nowhere all | grep -q -- ' -isystem b/cuda/include '; }
check "CUDA in the build folder, the sources in one with a space" own_cuda

given=(MPICC=/nowhere/mpicc CC=/nowhere/cc LUA=/nowhere/lua LUA_INC=/nowhere CUDA_HOME=/nowhere BUILD=b)
tells() {   # tells GOAL: as the recipe says it, before a build below finds nothing
    says 2 "^MPICC='/nowhere/mpicc' BUILD='b' .* CC='/nowhere/cc' LUA='/nowhere/lua' LUA_INC=./nowhere.*$1" \
        plain_make "${given[@]}" "$1"
}
for goal in check demo; do check "make $goal tells deps.sh what it was given" tells $goal; done
check "make tells deps.sh where Lua's headers are" says 2 'LUA_INC=/nowhere holds no lua.h' plain_make LUA_INC=/nowhere
check "make tells deps.sh where Lua's archive is" says 2 'LUA_LIB=/nowhere.a is not there' plain_make LUA_LIB=/nowhere.a
touch "$work/lua/lua.h" "$work/lua/liblua.a"
elsewhere() {   # only there: /usr has none
    sed "s|/usr/|$work/none/|g" tests/deps.sh >"$work/deps.sh" &&
        { LUA_INC=$work/lua LUA_LIB=$work/lua/liblua.a sh "$work/deps.sh" --missing build; ! grep -q lua5.4-dev "$work/check.out"; } &&
        says 1 'missing: .*liblua5.4-dev' sh "$work/deps.sh" --missing build
}
check "Lua elsewhere" elsewhere
mkdir "$work/include" && touch "$work"/include/{xxhash,uthash}.h
headers() {   # there, and only by CPPFLAGS
    CC='gcc -nostdinc' says 1 'missing: .*libxxhash-dev uthash-dev' sh "$work/deps.sh" --missing build &&
        { CC='gcc -nostdinc' CPPFLAGS=-I$work/include sh "$work/deps.sh" --missing build >"$work/said"; ! grep -E 'xxhash|uthash' "$work/said"; }
}
check "headers that CPPFLAGS name" headers
options() { CC='gcc -m64' MPICC='mpicc -g' tests/deps.sh --missing build; [ ! -s "$work/check.out" ]; }
check "compilers with options" options

# In all that is compiled and linked, of the library and of the tests.
flags() {
    plain_make BUILD="$work/never" CPPFLAGS=-DMARK LDFLAGS=-Wl,--mark "$work/never/sim/selftest" \
        all sim examples mpi-tests programs unit-tests fortran-tests bench-build | sed -z 's/ *\\\n */ /g' >"$work/plan"
    grep -E ' [^ ]+\.c( |$)' "$work/plan" | grep -E ' -o ' | grep -v -- ' -DMARK ' && return 1
    grep -E ' -o ' "$work/plan" | grep -vE ' -c | gen --common ' | grep -vE -- ' -Wl,--mark( |$)' && return 1
    [ "$(grep -cE -- '-Wl,--mark .*-o [^ ]*/(libstridec.so|stridec|stridec-mpi) ' "$work/plan")" -eq 3 ] &&
        ! grep -q -- -Werror "$work/plan" && plain_make BUILD="$work/never" WERROR=-Werror all | grep -q -- ' -Werror '
}
check "CPPFLAGS, LDFLAGS and WERROR" flags

# Where nothing can be installed: none of the packages, and no apt-get.
mkdir "$work/bin"
for tool in sh dirname readlink id cat grep env mktemp rm; do ln -s "$(command -v $tool)" "$work/bin"; done
pasted() {
    PATH=$work/bin CUDA_HOME=/nowhere BUILD=$work/build tests/deps.sh "$1" >"$work/said" 2>&1
    cat "$work/said"
    [ "$(wc -l <"$work/said")" -eq 1 ] && sed -n 's/.*: apt-get install //p' "$work/said" >"$work/packages" &&
        grep -qE '^[a-z0-9.+-]+( [a-z0-9.+-]+)*$' "$work/packages" && grep -qw python3-pip "$work/packages" &&
        [ -z "$(tr ' ' '\n' <"$work/packages" | sort | uniq -d)" ]
}
for goal in build demo check; do check "the packages of $goal as a command that can be pasted" pasted $goal; done

# Where apt-get has all packages but those that not every release has. It only notes here what it is asked for.
mkdir "$work/apt"
cat >"$work/apt/apt-get" <<APT
#!/bin/sh
echo "\$@" >>"$work/asked"
case \$* in *clang-19* | *debhelper*) echo "E: Unable to locate package \$5"; exit 100 ;; esac
APT
printf '#!/bin/sh\nshift\nexec "$@"\n' >"$work/apt/sudo"
chmod +x "$work"/apt/*
without_clang() {   # without_clang MPICC: that is there, or not
    rm -f "$work/asked"
    says 0 '^deps: no clang-19 .*left out of the tests' env PATH="$work/apt:$PATH" CUDA_HOME="$work/cuda" MPICC="$1" \
        TEST_CLANG=/nowhere tests/deps.sh check && cat "$work/asked" &&
        [ "$(grep -c 'install .*clang-19' "$work/asked")" -eq 1 ] && grep -q 'recommends clang-19$' "$work/asked"
}
with_others() { without_clang /nowhere && grep -q 'install .*libopenmpi-dev' "$work/asked"; }
without_debhelper() {   # nor anything else: what is asked for alone fails
    says 0 '^deps: no debhelper .E: .*debhelper.: the Debian packages are left out of the tests$' env \
        PATH="$work/apt:$work/bin" CUDA_HOME="$work/cuda" MPICC=/nowhere TEST_CLANG=/nowhere tests/deps.sh check
}
check "a release without debhelper" without_debhelper
check "a release without clang-19" without_clang "${MPICC:-mpicc}"
check "a release without clang-19, other packages missing" with_others

# By the Makefile's own rules, which write nothing here.
quiet() {
    local b=$work/clang
    # shellcheck disable=SC2046
    env -u MAKEFLAGS -u MAKEOVERRIDES -u MFLAGS OMPI_CC="$clang" MPICH_CC="$clang" make --no-print-directory -j2 CC="$clang" \
        MPICC="${MPICC:-mpicc}" BUILD="$b" CFLAGS='-fsyntax-only -Wno-unused-command-line-argument' WERROR=-Werror \
        $(printf "$b/%s.o " $(ls {gen,spec,runtime/*,tests/unit,tests/mpi,tests/programs}/*.c | sed 's/[.]c$//')) \
        $(printf "$b/sim/%s.o " $(basename -s .c -a tests/sim/*.c | grep -v selftest))
}
if clang=$(command -v clang || command -v clang-14); then
    check "clang has nothing to say" quiet
else
    echo "ok clang has nothing to say # SKIP there is none"
fi
exit $failed
