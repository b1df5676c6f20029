#!/bin/bash
# readme.sh BUILD: README's recipes as they are written there, on the simulated GPU: the commands and the program in
# Python are taken from the page. `mpirun`, `stridec` and `python` are this build's, and ./app is examples/halo3d.
# Variables: MPICC, PYTHON; $san: see tests/check.sh.
build=${1:?usage: readme.sh BUILD}
cd "$(dirname "$0")/../.." || exit 1
root=$PWD build=$(cd "$build" && pwd) work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MPICC=${MPICC:-mpicc} BUILD=$build STRIDEC_CACHE_DIR=$work/cache OMPI_MCA_rmaps_base_oversubscribe=1
. tests/fetched.sh
python=${PYTHON:-$(python_with mpi4py)}
. tests/results.sh

# block TEXT: the lines of the block of code that holds the text.
block() {
    awk -v text="$1" '/^```/ { if (inside && found) print code; inside = !inside; found = 0; code = ""; next }
        inside { code = code $0 "\n"; if (index($0, text)) found = 1 }' README.md
}

# Commands of the page, but for what pip installs, ended by the first that fails.
run_block() {
    block "$1" | sed '/^pip install \|^make wheel/d' >"$work/commands"
    [ -s "$work/commands" ] && (cd "$work" && PATH=$work/bin:$PATH timeout -k 5 200 bash -ex commands) >"$work/out" 2>&1 </dev/null
}

mkdir -p "$work/bin"
MPIRUN=$(command -v "$(tests/mpirun.sh --which)")   # not the one made here
export MPIRUN
cat >"$work/bin/mpirun" <<END
#!/bin/sh
exec "$root/tests/mpirun.sh" "\$@"
END
cat >"$work/bin/srun" <<END
#!/bin/sh
while :; do
    case \$1 in -n) ranks=\$2; shift 2 ;; --*) shift ;; *) break ;; esac
done
exec "$root/tests/mpirun.sh" -n "\$ranks" "\$@"
END
cat >"$work/bin/stridec" <<END
#!/bin/sh
case \$1 in
run) shift; exec ${san:-} ${san:+env ASAN_OPTIONS=detect_leaks=0} "$build/stridec" run --sim "\$@" ;;
tune) shift; set -- tune --quick --no-kernels --seconds 5 -o "$work/tune" "\$@" ;;
esac
LD_LIBRARY_PATH=$build/sim\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec ${san:-} "$build/stridec" "\$@"
END
cat >"$work/app" <<END
#!/bin/sh
exec "$build/examples/halo3d" 16 2 3
END
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$work/bin/python"
chmod +x "$work"/bin/* "$work/app"

run_block 'stridec run --record' && grep -q 'halo3d: verified' "$work/out" && [ -s "$work/kernels/manifest" ]
result "README: a container without NVRTC"
block 'import cupy' >"$work/app.py"
export PYTHONPATH=$root/packaging/python:$root/tests/python/stand_in:$root/examples PYTHONDONTWRITEBYTECODE=1
[ -z "$python" ] || {
    run_block 'python app.py' && grep -q '^\[1 0 1\]$' "$work/out"
    result "README: Python"
}
block 'srun --mpi' | sed -n '/^srun/p' >"$work/commands"
(cd "$work" && PATH=$work/bin:$PATH timeout -k 5 100 bash -ex commands) >"$work/out" 2>&1 </dev/null &&
    grep -q '^ok  *program ' "$work/out" && grep -q 'halo3d: verified' "$work/out" && grep -q 'by stridec' "$work/out"
result "README: Slurm"
exit $failed
