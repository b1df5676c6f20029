"""beside.py: `beside.py RESULTS.json...`: what bench/beside measured under several settings, as one table in Markdown."""
import json
import sys


def setting(r):
    if r["engine"] == "copy":
        return "copy engine"
    return f"{r['sm_limit']} SMs" if r["sm_limit"] else "all SMs"


def main():
    runs = []
    for name in sys.argv[1:]:
        with open(name) as f:
            runs.append(json.load(f))
    first = runs[0]
    sys.stdout.reconfigure(encoding="utf-8")
    print("# MPI_Pack and MPI_Unpack beside a computation that fills the GPU\n")
    print(f"{first['machine']['gpu']}; {first['versions']['mpi']}; {first['date']}, `{first['command']}`.")
    print("Microseconds a call, waited for; the computation is some 400 waves of 20 µs blocks on every SM. Settings: "
          "STRIDEC_SM_LIMIT (all SMs where unset) and STRIDEC_ENGINE=copy, which within a GPU the driver carries out on "
          "SMs too.\n")
    print("| layout | call | setting | alone | beside | computation | beside it |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for i, case in enumerate(first["cases"]):
        for r in runs:
            c = r["cases"][i]
            more = 100 * (c["compute_beside_us"] / c["compute_alone_us"] - 1)
            print(f"| {c['case']} | {c['way']} | {setting(r)} | {c['alone_us']:.1f} | {c['beside_us']:.1f} | "
                  f"{c['compute_alone_us']:,.0f} | {more:+.1f} % |")


main()
