#!/bin/bash
# others.sh BUILD: bench/others.sh finds programs, runs them above two MPIs, without and with stridec, and bench/others.py reads
# what they print. The programs are scripts that print such tables; one of the MPIs says that it is CUDA-aware. One line a check.
build=$(cd "$1" && pwd) work=$(mktemp -d)
cd "$(dirname "$0")/../.." || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
. tests/results.sh
lines() {   # FILE PATTERN...: each is in it
    local file=$1
    shift
    for pattern; do grep -qE -- "$pattern" "$file" || { echo "no $pattern in $file"; cat "$file"; return 1; }; done
}
script() {   # PATH, of what is read
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}

script "$work/aware/bin/mpicc" <<<'exit 1'
script "$work/aware/bin/mpirun" <<<'exec "'"$(command -v mpirun.openmpi || command -v mpirun)"'" "$@"'
script "$work/aware/bin/ompi_info" <<<'echo mca:mpi:base:param:mpi_built_with_cuda_support:value:true'
# Half as long with stridec; its own check fails above 64 bytes. Its words are told where they are of use.
script "$work/programs/a/osu_latency" <<'END'
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
case $LD_PRELOAD in *stridec*) us=5.00 ;; *) us=10.00 ;; esac
case " $* " in
*" -c "*) printf '\n# Some Latency Test\n# Size       Avg Latency(us)        Validation  P50 Tail Lat(us)\n64  1.00  Pass  1.00\n1024  1.00  Fail  1.00\n' ;;
*) printf '\n# Some Latency Test\n# Size       Avg Latency(us)  P50 Tail Lat(us)\n64  90.00  %s\n1024  90.00  %s\n' $us $us ;;
esac
case " $* " in *" -d cuda "*" D D ") ;; *" -d cuda "*) exit 9 ;; esac
END
# Refuses to overwrite its file, which a run before would have left.
script "$work/programs/ddtbench" <<'END'
[ "${OMPI_COMM_WORLD_RANK:-0}" = 0 ] || exit 0
[ ! -e ddtbench.out ] || exit 1
for us in 30 10 20; do
    echo "some_x mpi_ddt 4096 communication $us.5000 NA NA NA NA"
    echo "some_x reference 4096 communication $us.0000 NA NA NA NA"
    echo "some_x mpi_pack_ddt 4096 pack 1.0 NA NA NA NA"
done >ddtbench.out
END
script "$work/programs/comb" <<<'echo no luck >&2; exit 3'
ln -s "$(command -v python3)" "$work/python"

others() { MPIS="${MPICC:-mpicc} $work/aware/bin/mpicc" BUILDS=$build PYTHON=$work/python timeout 300 bench/others.sh "$@" >"$work/out" 2>&1; }
others --help "$work/results" "$work/programs" && lines "$work/out" '^osu: .*a/osu_latency$' '^halo: not found$' 'OSU_DIR +OSU' \
    && [ ! -e "$work/results" ]
result "help says what is found"

NAME=m PROGRAMS="osu ddt comb tempi" MEMORY="device host" OSU=latency OSU_TYPES=latency OSU_HOST="latency bw" \
    others "$work/results" "$work/programs"
[ $? -eq 1 ] && [ -s "$work/results/others-m.json" ]
result "wrong bytes are an error"
python3 - "$work/results/others-m.json" >>"$work/out" 2>&1 <<'EOF'
import json, sys
r = json.load(open(sys.argv[1]))
assert all(key in r for key in ("machine", "versions", "date", "command")), r.keys()
row = {(c["program"], c["case"], c["bytes"], c["memory"], c["mpi"], c["mode"]): c for c in r["cases"]}
assert len(row) == len(r["cases"])
def us(*key): return row[key]["us"]
# Alone on device memory only where the MPI is CUDA-aware; the mean when cold, the median else.
assert ("osu", "latency", 64, "device", "stock", "alone") not in row
assert us("osu", "latency", 64, "device", "aware", "alone") == 10 and us("osu", "latency", 64, "host", "stock", "alone") == 10
assert us("osu", "latency", 64, "device", "stock", "cold") == 90 and us("osu", "latency", 64, "device", "aware", "warm") == 5
assert us("osu", "latency vect:16:8", 1024, "device", "aware", "warm") == 5
# The check of as many bytes speaks for rows with stridec; types have none.
assert row["osu", "latency", 64, "host", "stock", "warm"]["ok"] is True
assert row["osu", "latency", 1024, "host", "stock", "warm"]["ok"] is False
assert row["osu", "latency", 1024, "host", "stock", "alone"]["ok"] is None
assert row["osu", "latency vect:16:8", 64, "device", "stock", "warm"]["ok"] is None
ddt = row["ddt", "some_x", 4096, "device", "stock", "warm"]
assert ddt["us"] == 20.5 and ddt["reference_us"] == 20 and ("ddt", "some_x", 4096, "device", "aware", "alone") in row
assert "tempi: not found" in r["left_out"] and "osu_bw: not found" in r["left_out"], r["left_out"]
assert sum("comb" in f and "status 3: no luck" in f for f in r["failed"]) == 5, r["failed"]   # aware alone too
EOF
result "rows of all programs, MPIs and modes"
lines "$work/results/others-m.md" '÷ the MPI alone \| aware, warm \| 2 \| 0\.50, worst 0\.50' \
    'device memory ÷ the aware MPI alone \| stock, warm \| 4 \| 0\.50' 'DDTBench ÷ contiguous message \| stock, warm \| 1 \| 1\.0[23]' \
    '^\| some_x \| 4,096 \| device \| 20\.0 \| 20\.5 ' '5\.0 \(\*\*wrong bytes\*\*\)' '^- tempi: not found' 'stock: .*Open MPI' \
    '^`bench/others.sh;' >>"$work/out"
result "the report"

cat >"$work/log" <<'END'
@{"gpu": "Some GPU", "gpus": "2", "driver": "1.2", "cores": "4", "date": "2026-01-02T03:04:05Z", "stridec": "stridec 9", "command": "c"}
@{"mpi": "stock", "version": "An MPI 1.0"}
@{"program": "osu", "case": "bw", "memory": "device", "mpi": "stock", "mode": "warm", "status": "0", "error": ""}
 # Some Bandwidth Test
 # Size      Bandwidth (MB/s)
 1000                  500.00
 2000                    0.00
@{"program": "ddt", "case": "", "memory": "device", "mpi": "stock", "mode": "warm", "status": "0", "error": ""}
 ddt one_x 100 4.0 - 2.0 - - - -
 ddt two_y 200 - - 3.0 - - - -
 ddtsum rank0 right 3 wrong 0
@{"program": "fft", "case": "", "memory": "device", "mpi": "stock", "mode": "warm", "status": "0", "error": ""}
 row forward 64 7.5 ok
@{"program": "comb", "case": "", "memory": "device", "mpi": "stock", "mode": "warm", "status": "0", "error": ""}
 Args  comb;8_8_8;-cycles;20;-comm
 Starting test Comm mpi Mesh cuda Device Buffers mpi_type Device mpi_type Device
 bench-comm:  num 2 avg 0.000400000 s min 0.0 s max 0.0 s
@{"program": "tempi", "case": "ping-pong", "memory": "device", "mpi": "stock", "mode": "warm", "status": "1", "error": "died"}
 desc,ranks,B,count,stride,blocklength,B/rank,B,elapsed  (s),bandwidth/rank  (MiB/s)
 vector|1024|1,2,1024,1,512,1,1024,2048,1.5e-05,130
 vector|1024|2,2,1024,1,512,2
@{"program": "tempi", "case": "halo", "memory": "device", "mpi": "stock", "mode": "warm", "status": "0", "error": ""}
 comm(s),pack (s),alltoallv (s),unpack (s)
 128,256,256,0.01,1e-05,2e-05,3e-05
END
python3 bench/others.py "$work/log" "$work/some.json" "$work/some.md" >"$work/out" 2>&1 && python3 - "$work/some.json" >>"$work/out" 2>&1 <<'EOF'
import json, sys
r = json.load(open(sys.argv[1]))
got = [(c["case"], c["bytes"], c["us"] and round(c["us"], 3), c["ok"]) for c in r["cases"]]
assert got == [("bw", 1000, 2.0, None), ("one_x", 100, 4.0, True), ("two_y", 200, None, True), ("forward", 64, 7.5, True),
               ("Comm mpi Mesh cuda Device Buffers mpi_type Device mpi_type Device", None, 20.0, None),
               ("vector|1024|1", 1024, 15.0, None), ("halo 128×256×256, pack", None, 10.0, None),
               ("halo 128×256×256, alltoallv", None, 20.0, None), ("halo 128×256×256, unpack", None, 30.0, None)], got
assert len(r["failed"]) == 1 and r["failed"][0].endswith("status 1: died") and r["wrong"] == []
EOF
result "the forms of all programs' output"
lines "$work/some.md" 'DDTBench ÷ contiguous message \| stock, warm \| 1 \| 2\.00' '^\| two_y \| 200 \| device \| 3\.0 \| — \|' '2 × Some GPU, driver 1\.2' \
    >>"$work/out"
result "their report"
exit $failed
