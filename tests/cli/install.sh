#!/bin/bash
# install.sh BUILD MPICC MPICH_BUILD MPICH_MPICC: what `make install` puts where, for two MPIs in one prefix with a
# space in its name: programs run by it, consumers compile by pkg-config and CMake, man pages and completions, the
# licences; that `make uninstall` leaves nothing; that the sources build in a folder with a space; and that versions
# agree.
cd "$(dirname "$0")/../.." || exit 1
build=$1 mpicc=$2 mpich=$3 mpicc_mpich=$4
version=$(<VERSION)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. tests/results.sh
skip() { echo "ok $1 # SKIP $2"; }
plain_make() {   # without what a make above this one, or tests/check.sh, has set
    env -u MAKEFLAGS -u MAKEOVERRIDES -u MFLAGS -u SAN -u BUILD -u MPICC make --no-print-directory "$@"
}
shown() { tee "$work/shown"; }   # for a later grep, and for whoever reads a failure

# ---- the files ----
# An environment's folders, which may mean other things, do not count.
export BINDIR=/dev/null/bin LIBDIR=/dev/null/lib DATADIR=/dev/null/share MANDIR=/dev/null/man
prefix="$work/a b"
both() {   # both GOAL VARIABLE...: for both MPIs
    plain_make BUILD="$build" MPICC="$mpicc" "$@" && plain_make BUILD="$mpich" MPICC="$mpicc_mpich" "$@"
}
mkdir -p "$prefix/lib" && echo "of an older release" >"$prefix/lib/libstridec.so"
check "make install, two MPIs" both install PREFIX="$prefix"
check "both builds are there" eval \
    '(cd "$prefix/lib/stridec" && ls openmpi-[45]/{libstridec.so,stridec-mpi} mpich/{libstridec.so,stridec-mpi})'
kernels() {   # where NVRTC has made some
    [ ! -s "$build/kernels/manifest" ] || cut -sf3 "$prefix/lib/stridec/kernels/manifest" | shown |
        (cd "$prefix/lib/stridec/kernels" && xargs ls) && [ -s "$work/shown" ]
}
check "kernels that serve all types" kernels
check "lib/libstridec.so is the first" [ "$(readlink -f "$prefix/lib/libstridec.so")" -ef \
    "$(echo "$prefix"/lib/stridec/openmpi-[45]/libstridec.so)" ]
check "SONAME" eval 'readelf -d "$prefix/lib/libstridec.so.0" | shown | grep -q "SONAME.*\[libstridec.so.0\]"'
licences() {
    for text in 'Lua.org, PUC-Rio' 'Yann Collet' 'Troy D. Hanson' 'in binary form must reproduce'; do
        grep -q "$text" "$prefix/share/doc/stridec/NOTICES" || { echo "no $text"; return 1; }
    done
    cmp LICENSE "$prefix/share/doc/stridec/LICENSE"
}
check "licences" licences

staged() {   # with all folders elsewhere; what the prefix of DESTDIR holds is the same
    local folders=(PREFIX=/opt/x BINDIR=/opt/x/commands LIBDIR=/opt/x/lib64 INCLUDEDIR=/opt/x/inc MANDIR=/opt/x/man
        DATADIR=/opt/x/data DOCDIR=/opt/x/doc BASHDIR=/opt/x/bash ZSHDIR=/opt/x/zsh MODULEDIR=/opt/x/modules)
    (umask 077 && both install DESTDIR="$work/d e" "${folders[@]}") || return 1
    find "$work/d e" ! -type l ! -perm -o=r -o -type d ! -perm -o=x | shown
    [ ! -s "$work/shown" ] || { echo "others can't read that"; return 1; }
    (cd "$work/d e" && find . ! -type d | sort) >"$work/staged"
    for file in commands/stridec lib64/libstridec.so lib64/stridec/mpich/libstridec.so inc/stridec.h \
        man/man1/stridec.1 data/pkgconfig/stridec.pc doc/NOTICES bash/stridec zsh/_stridec "modules/$version"; do
        grep -qFx "./opt/x/$file" "$work/staged" || { echo "no $file"; return 1; }
    done
    grep -vE '^\./opt/x/(commands|lib64|inc|man|data|doc|bash|zsh|modules|lib/stridec$)' "$work/staged" && return 1
    "$work/d e/opt/x/commands/stridec" run -- env | grep -F "LD_LIBRARY_PATH=$work/d e/opt/x/lib64/stridec/" || return 1
    touch "$work/d e/opt/x/doc/another" "$work/d e/opt/x/lib64/stridec/another"
    plain_make uninstall DESTDIR="$work/d e" "${folders[@]}" || return 1
    (cd "$work/d e/opt/x" && find . ! -type d -o -name 'stridec*' | sort) | shown
    [ "$(xargs <"$work/shown")" = "./doc/another ./lib64/stridec ./lib64/stridec/another" ]
}
check "DESTDIR and folders of their own; all may read; nothing is left behind, nothing of others is removed" staged
dry() { FETCHED=$work/n plain_make -n wheel BUILD="$work/n" && [ ! -e "$work/n" ]; }
check "make -n wheel makes nothing" dry
glibc() {   # what packaging/wheel.py finds that a library needs which the linker has packed the relocations of
    echo 'int puts(const char *); int (*p)(const char *) = puts; static int x; int *q = &x;' |
        gcc -shared -fPIC -Wl,-z,pack-relative-relocs -o "$work/packed" -x c - || return 1
    readelf -V "$work/packed" | grep -q GLIBC_ABI_DT_RELR || { echo "the linker does not pack"; return 0; }
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=packaging python3 -c \
        'import sys, wheel; sys.exit(wheel.glibc_of(sys.argv[1:]) != (2, 36))' "$work/packed" "$work/staged"
}
check "the glibc that packed relocations need" glibc

# ---- programs ----
stridec="$prefix/bin/stridec"
check "the command" eval '"$stridec" --version | shown | grep -qx "stridec $version"'
check "the command's other part" eval \
    '"$stridec" inspect --signature "s(4,64,d(16))" | shown | grep -qF "s(4,64,d(16))"'
cat >"$work/here.c" <<'C'
#include <stdio.h>
#include <stridec.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    printf("here: %d\n", stridec_present());
    return MPI_Finalize();
}
C
present() {   # present MPICC PROGRAM: with the library, and without it
    MPICC=$1 tests/mpirun.sh -n 1 "$stridec" run --sim -- "$2" 2>&1 | shown | grep -qx 'here: 1' &&
        MPICC=$1 tests/mpirun.sh -n 1 "$2" 2>&1 | shown | grep -qx 'here: 0'
}
of_mpi() { "$1" -I "$prefix/include" -o "$work/here" "$work/here.c" -ldl && present "$1" "$work/here"; }
check "a program of $mpicc" of_mpi "$mpicc"
check "a program of $mpicc_mpich" of_mpi "$mpicc_mpich"
mkdir "$work/a:b"
cp "$build/stridec" "$build/libstridec.so" "$work/a:b"
colon() { ! "$work/a:b/stridec" run true 2>"$work/shown" && grep "can't hold a path with a colon" "$work/shown"; }
check "a colon is refused" colon

# ---- consumers ----
mkdir "$work/c"
cp "$work/here.c" "$work/c"
by_pkgconfig() {
    local -x PKG_CONFIG_PATH=$1/share/pkgconfig
    local flags library
    flags=$(pkg-config --cflags --libs "stridec = $version") || return 1
    library=$(pkg-config --variable=library stridec | sed 's/\\//g')
    eval "$mpicc -o $work/c/by_pkgconfig $work/c/here.c $flags" && present "$mpicc" "$work/c/by_pkgconfig" &&
        [ "$library" -ef "$1/lib/libstridec.so" ]
}
cat >"$work/c/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(here C)
find_package(stridec ${WANTED} REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
add_executable(here here.c)
target_link_libraries(here stridec::stridec MPI::MPI_C)
file(WRITE ${CMAKE_BINARY_DIR}/command "${stridec_EXECUTABLE}\n${stridec_LIBRARY}\n")
CMAKE
configure() {   # configure PREFIX VERSION: in $work/VERSION
    cmake -S "$work/c" -B "$work/$2" -DCMAKE_PREFIX_PATH="$1" -DMPI_C_COMPILER="$(command -v "$mpicc")" -DWANTED="$2"
}
by_cmake() {
    local wanted=${version%.*}
    configure "$1" "$wanted" && cmake --build "$work/$wanted" && present "$mpicc" "$work/$wanted/here" || return 1
    while read -r file; do [ -e "$file" ] || { echo "no $file"; return 1; }; done <"$work/$wanted/command"
}
other_version() { ! configure "$1" 99.1 && grep -q 'version: '"$version" "$work/check.out"; }
mv "$prefix" "$work/moved to"   # both files find the rest from where they lie
prefix="$work/moved to" stridec="$work/moved to/bin/stridec"
plain=$prefix
case $(pkg-config --version 2>/dev/null) in
'') skip pkg-config "there is none" ;;
0.*) plain=$work/plain && ln -s "$prefix" "$plain" ;;&   # those split paths at spaces
*) check "pkg-config" by_pkgconfig "$plain" ;;
esac
if command -v cmake >/dev/null; then
    check "CMake" by_cmake "$prefix"
    check "CMake wants another version" other_version "$prefix"
else
    skip CMake "there is none"
fi

# ---- man pages and completions ----
options() { awk -F'\t' '$1 == "command" { c = $2 } $1 == "option" { print c, $2 }' "$build/help/listing"; }
pages() {
    local page command option
    for page in "$prefix"/share/man/man1/*.1; do
        LC_ALL=C.UTF-8 MANWIDTH=200 man --warnings -l "$page" 2>"$work/warned" | sed 's/.\x08//g' \
            >"$work/${page##*/}.text"
        [ -s "$work/${page##*/}.text" ] && [ ! -s "$work/warned" ] || { echo "$page"; cat "$work/warned"; return 1; }
    done
    while read -r command option; do
        grep -qE "^ +$option( |\$)" "$work/stridec-$command.1.text" ||
            { echo "stridec-$command lacks $option"; return 1; }
    done < <(options)
    for variable in $(grep -oE '^ +\{"STRIDEC_[A-Z_]+' runtime/base/env.c | tr -d ' {"'); do
        grep -q "^ *$variable\$" "$work/stridec.1.text" || { echo "stridec.1 lacks $variable"; return 1; }
    done
}
# Images without manuals have another `man`.
if man --version 2>/dev/null | grep -q '^man ' && command -v groff >/dev/null; then
    check "man pages" pages
else
    skip "man pages" "no man"
fi

completes() {   # completes EXPECTED WORD...: in bash, the last word
    local expected=$1
    shift
    bash --norc -c '. "$0" || exit
        COMP_WORDS=(stridec "$@") COMP_CWORD=$#; compopt() { :; }; _stridec; echo "<${COMPREPLY[*]}>"' \
        "$prefix/share/bash-completion/completions/stridec" "$@" | shown
    [ "$(<"$work/shown")" = "<$expected>" ]
}
all_complete() {
    while read -r command option; do completes "$option" "$command" "$option" || return 1; done < <(options)
}
check "bash completes a command" completes inspect ins
check "bash completes an option" completes --quick tune --host --qu
check "bash completes each option" all_complete
mkdir "$work/c/folder" && touch "$work/c/file"
check "bash completes a folder" completes "$work/c/folder" gen -o "$work/c/f"
check "bash leaves a program's options to it" completes '' run -- ls --st
zsh_completes() {   # zsh_completes WORDS EXPECTED
    timeout 20 zsh -f tests/cli/complete.zsh "$prefix/share/zsh/site-functions" "$1" | shown | grep -qxF -- "$2"
}
if command -v zsh >/dev/null; then
    check "zsh completes a command" zsh_completes ins 'stridec inspect '
    check "zsh completes an option" zsh_completes 'tune --host --qu' 'stridec tune --host --quick '
else
    skip "zsh completes" "there is none"
fi

# ---- a module file, and recipes ----
module() {
    cat >"$work/module.tcl" <<'TCL'
proc module-whatis {text} {}
proc conflict {name} {}
proc prepend-path {name folder} { if {![file isdirectory $folder]} { error "$name: no $folder" }; puts "$name $folder" }
source [lindex $argv 0]
ModulesHelp
TCL
    plain_make BUILD="$build" MPICC="$mpicc" PREFIX="$work/m n" install &&
        tclsh "$work/module.tcl" "$work/m n/share/modulefiles/stridec/$version" | shown | grep -qx "PATH $work/m n/bin"
}
if command -v tclsh >/dev/null; then check "module file" module; else skip "module file" "no tclsh"; fi
# The recipe is run with what stands for Spack: its version, and the variables that it gives to make.
spack() {   # spack API: of its packages: 2 from Spack 1.0 on
    python3 - "$version" "$1" <<'PYTHON'
import os, re, sys, types
api = int(sys.argv[2])
known = set(re.findall(r"\b[A-Z_]{2,}\b", open("Makefile").read() + open("packaging/install.mk").read()))
versions, preferred, variants, needs, given = [], [], [], [], []
class Folder(str):
    __getattr__ = lambda self, name: Folder(self + "/" + name)
class Spec(dict):
    satisfies = lambda self, what: what.lstrip("+~") in variants or sys.exit("no variant " + what)
def make(goal, *words):
    given.extend(words)
package = types.ModuleType("spack.package")
package.__dict__.update(license=lambda name: None, make=make, spack_cc="cc",
    join_path=os.path.join, version=lambda v, **how: (versions if "preferred" not in how else preferred).append(v),
    variant=lambda name, **how: variants.append(name),
    depends_on=lambda what, **how: needs.append(re.match(r"[a-z]+", what)[0]))
sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": package})
name = "spack_repo.builtin.build_systems.makefile"
giver = package if api == 1 else types.ModuleType(name)
giver.MakefilePackage = object
if api == 2:
    sys.modules.update({name.rsplit(".", n)[0]: types.ModuleType(name.rsplit(".", n)[0]) for n in (1, 2, 3)})
    sys.modules[name] = giver
recipe = {"__file__": os.path.abspath("packaging/spack/package.py")}
exec(compile(open(recipe["__file__"]).read(), recipe["__file__"], "exec"), recipe)
one = recipe["Stridec"]()
one.prefix = Folder("/p")
one.spec = Spec((n, types.SimpleNamespace(prefix=Folder("/" + n), mpicc="mpicc")) for n in needs)
one.build(one.spec, one.prefix)
one.install(one.spec, one.prefix)
names = {word.split("=")[0] for word in given if "=" in word}
assert sys.argv[1] in versions and preferred == ["main"], (versions, preferred)
assert names and names <= known, names - known
assert {"sim"} == {word for word in given if "=" not in word} == set(variants), given
assert {"mpi", "cuda", "lua", "xxhash", "uthash"} <= set(needs), needs
PYTHON
}
check "Spack recipe" spack 2
check "Spack recipe, before Spack 1.0" spack 1
versions() {
    [ "$(sed -n 's/^## \[\([0-9.]*\)\].*/\1/p' CHANGELOG.md | head -n 1)" = "$version" ] ||
        { echo CHANGELOG.md; return 1; }
    [ "$(sed -n '1s/.*(\([0-9.]*\)).*/\1/p' debian/changelog)" = "$version" ] || { echo debian/changelog; return 1; }
}
check "CHANGELOG.md and the Debian package have the version of VERSION" versions

# ---- the sources in a folder with a space: one file of each kind is compiled, everything is linked ----
spaced() {
    local tree="$work/t u" b=build
    mkdir -p "$tree/$b" && git ls-files -z | tar c --null -T - | tar x -C "$tree" || return 1
    (cd "$build" && cp -a gen spec runtime sim liblua.a help stridec stridec-mpi libstridec.so "$tree/$b") || return 1
    (cd "$tree/$b" && rm -r stridec stridec-mpi libstridec.so liblua.a help sim/libcuda.so.1 sim/copy.o spec/spec.o \
        gen/embedded.[co] gen/canon.o runtime/declared runtime/command/main.o runtime/base/env.o) || return 1
    plain_make -C "$tree" BUILD=$b MPICC="$mpicc" WERROR=-Werror all sim &&
        "$tree/$b/stridec" run --sim -- env | shown | grep -qx "LD_PRELOAD=libstridec.so" &&
        grep -q "^LD_LIBRARY_PATH=$tree/$b:$tree/$b/sim" "$work/shown" &&
        MPICC=$mpicc tests/mpirun.sh -n 2 "$tree/$b/stridec" run --sim -- "$build/examples/halo3d" 8 1 1 |
        shown | grep -q verified
}
check "sources in a folder with a space" spaced
exit $failed
