"""overhead.py: `overhead.py RESULTS.json...`: what bench/overhead measured in several processes, as tables in Markdown."""
import json
import sys


def process(r):
    return ("GPU context" if r["gpu"] else "no CUDA") + ("" if r["preloaded"] else ", not preloaded: noise")


def cases(runs):
    print("| process | memory | test | MPI alone, µs | with stridec, µs | ratio |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for r in runs:
        for c in r["cases"]:
            print(f"| {process(r)} | {c['memory']} | {c['test']} | {c['mpi_us']:.4f} | {c['program_us']:.4f} | "
                  f"{c['ratio']:.4f} |")


def queries(run):
    kinds = [key for key in run["queries"][0] if key.endswith("_ns")]
    print("\nOne question about a pointer, ns:\n")
    print("| question | " + " | ".join(k[:-3] for k in kinds) + " |")
    print("| --- |" + " ---: |" * len(kinds))
    for q in run["queries"]:
        print(f"| {q['query']} | " + " | ".join(f"{q[k]:,.0f}" for k in kinds) + " |")


def main():
    runs = []
    for name in sys.argv[1:]:
        with open(name) as f:
            runs.append(json.load(f))
    sys.stdout.reconfigure(encoding="utf-8")
    print("# What stridec costs contiguous messages in host memory\n")
    print(f"{runs[0]['mpi']}; {runs[0]['date']}; `bench/overhead`, two ranks. Half a round trip of 8 bytes, and the time a "
          "message of windows of 64; medians. Ratio: the median of the ratios of rounds in turns in one process.\n")
    cases(runs)
    for r in runs:
        if r["queries"]:
            queries(r)
            break
    print("\n| process | threads | anonymous memory, KiB |\n| --- | ---: | ---: |")
    for r in runs:
        print(f"| {process(r)} | {r['threads']} | {r['anonymous_kb']} |")


main()
