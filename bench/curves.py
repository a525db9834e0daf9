"""How the cost of a task grows with what there is: runs `orloj bench` once for each point of a curve and prints tables
in Markdown. ORLOJ names the binary. Arguments: the curves to measure, by default all; see --help."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ORLOJ = os.environ.get("ORLOJ", "orloj")
LIFE = ["whole lives", "submitted", "replicas' CPU per task", "peak memory of one replica"]
MAX = ["tasks done", "submit p99", "replicas' CPU per task", "peak memory of one replica"]
REST = ["submitted", "memory of one replica, pending", "change of leader, pending p50", "restart of one replica"]
JOBS = ["jobs made", "memory of one replica, jobs", "page of 100 jobs p99", "change of leader, jobs p50", "lateness p99",
        "lateness, all of a second at once p99", "replicas' CPU per fire"]

# Name, what varies, the workload with what stays, for each point its name and options, and the figures that are shown.
CURVES = {
    "tasks": ("due at one instant", ["burst"],
              [(str(n), ["--tasks", str(n)]) for n in (1_000, 10_000, 50_000, 100_000, 200_000)], LIFE),
    "executors": ("executors (300 slots in all)", ["burst", "--tasks", "50000"],
                  [(str(n), ["--executors", str(n), "--slots", str(300 // n)]) for n in (1, 3, 10, 30, 100)], LIFE),
    "payload": ("bytes of parameters", ["burst", "--tasks", "10000"],
                [(str(n), ["--payload", str(n)]) for n in (0, 1_024, 4_096, 16_384, 65_536)], LIFE),
    "history": ("finished tasks in the table", ["max", "--seconds", "30"],
                [(str(n), ["--finished", str(n)]) for n in (0, 10_000, 100_000, 300_000, 1_000_000)], MAX),
    "pending": ("tasks of a later hour", ["pending"],
                [(str(n), ["--tasks", str(n)]) for n in (10_000, 100_000, 1_000_000)], REST),
    "jobs": ("jobs (1,000 fires a second)", ["jobs", "--seconds", "30"],
             [(str(n), ["--jobs", str(n)]) for n in (5_000, 20_000, 100_000)], JOBS),
}


def measure(arguments, runs):
    """The rows of the summary, by figure."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [ORLOJ, "bench", *arguments, "--runs", str(runs), "--out", out.name, "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        report = json.load(out)
    return {row["name"]: row for row in report["summary"]}


def shown(row):
    if row is None:
        return "–"
    value = row["median"]
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f} {row['unit']}".rstrip()


def curve(name, runs):
    what, workload, points, figures = CURVES[name]
    print(f"\n| {what} | " + " | ".join(figures) + " |\n|---|" + "---|" * len(figures), flush=True)
    for label, options in points:
        rows = measure([*workload, *options], runs)
        cells = [shown(rows.get(figure)) for figure in figures]
        print(f"| {int(label):,} | " + " | ".join(cells) + " |", flush=True)
        lost = [row for figure in ("lost", "duplicates", "early") if (row := rows.get(figure)) and row["max"] > 0]
        for row in lost:
            print(f"{name} {label}: {row['max']:.0f} {row['name']}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", nargs="*", metavar="CURVE", help="which: " + ", ".join(CURVES))
    parser.add_argument("--runs", type=int, default=1, help="runs of each point; the median is shown (1)")
    arguments = parser.parse_args()
    for name in arguments.curves:
        if name not in CURVES:
            parser.error(f"{name!r} is none of {', '.join(CURVES)}")
    for name in arguments.curves or CURVES:
        curve(name, arguments.runs)


if __name__ == "__main__":
    main()
