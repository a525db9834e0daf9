"""How the cost of a task grows with what there is: runs `orloj bench` for each point of a curve and prints tables in
Markdown, with the median of each figure and in parentheses the smallest and the largest. The points of a curve are run one
after the other, and then all of them again, so that a machine that drifts does so under all of them. ORLOJ names the
binary. Arguments: the curves to measure, by default all; see --help. Ends with 1 when a run lost a task or the like, or
broke off."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ORLOJ = os.environ.get("ORLOJ", "orloj")
LIFE = ["whole lives", "submitted", "replicas' CPU per task", "peak memory of one replica"]
MAX = ["tasks done", "submit p99", "replicas' CPU per task", "peak memory of one replica"]
REST = ["submitted", "memory of one replica, pending", "change of leader, pending p50", "load of a new leader, pending p50",
        "load of the window, pending p50", "restart of one replica", "restart of one replica, killed"]
READY = ["memory of one replica, ready", "change of leader, pending p50", "load of a new leader, pending p50",
         "restart of one replica", "restart of one replica, killed", "peak memory of one replica"]
KILLED = ["kill to next dispatch p50", "kill to next dispatch max", "load of a new leader p50", "submit p99", "lateness p99",
          "peak memory of one replica"]
JOBS = ["jobs made", "memory of one replica, jobs", "page of 100 jobs p99", "change of leader, jobs p50", "lateness p99",
        "lateness, all of a second at once p99", "replicas' CPU per fire"]
# Points that take an hour by themselves: with --long.
LONG = {"pending": [("10000000", ["--tasks", "10000000"])]}

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
                [(str(n), ["--tasks", str(n)]) for n in (20_000, 100_000, 1_000_000)], REST),
    "ready": ("ready tasks that nobody takes", ["pending", "--soon", "0"],
              [(str(n), ["--tasks", str(n), "--ready", str(n)]) for n in (10_000, 100_000, 1_000_000)], READY),
    "killed": ("ready tasks that nobody takes, while leaders are killed", ["failover", "--kills", "5"],
               [(str(n), ["--ready", str(n)]) for n in (0, 10_000, 100_000, 300_000)], KILLED),
    "jobs": ("jobs (1,000 fires a second)", ["jobs", "--seconds", "30"],
             [(str(n), ["--jobs", str(n)]) for n in (5_000, 20_000, 100_000)], JOBS),
}


def measure(arguments):
    """One run: its report, or nothing where there is none; and whether all went well."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.json")
        # Exit code 1 comes with a whole report and with a line on standard error for each thing that was not right.
        code = subprocess.run([ORLOJ, "bench", *arguments, "--out", out, "--quiet"], stdout=subprocess.DEVNULL).returncode
        try:
            with open(out) as file:
                report = json.load(file)
        except FileNotFoundError:
            report = None
    return report, code == 0


def shown(value):
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f}"


def cell(rows):
    """Median and spread of one figure over all runs of a point."""
    if not rows:
        return "–"
    values = [row["median"] for row in rows]
    spread = f" ({shown(min(values))} – {shown(max(values))})" if len(values) > 1 else ""
    return f"{shown(statistics.median(values))} {rows[0]['unit']}".rstrip() + spread


def curve(name, runs, long):
    what, workload, points, figures = CURVES[name]
    points = points + (LONG.get(name, []) if long else [])
    found, well = {label: [] for label, _ in points}, True
    for number in range(1, runs + 1):
        for label, options in points:
            print(f"{name} {label}, run {number} of {runs}", file=sys.stderr, flush=True)
            report, good = measure([*workload, *options])
            if not good:
                print(f"{name} {label}, run {number}: not all went well, see above", file=sys.stderr, flush=True)
            well &= good
            found[label].extend(report["summary"] if report else [])
    print(f"\n| {what} | " + " | ".join(figures) + " |\n|---|" + "---|" * len(figures))
    for label, _ in points:
        cells = [cell([row for row in found[label] if row["name"] == figure]) for figure in figures]
        print(f"| {int(label):,} | " + " | ".join(cells) + " |", flush=True)
    return well


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", nargs="*", metavar="CURVE", help="which: " + ", ".join(CURVES))
    parser.add_argument("--runs", type=int, default=3, help="runs of each point (3)")
    parser.add_argument("--long", action="store_true", help="pending up to 10,000,000 tasks")
    arguments = parser.parse_args()
    for name in arguments.curves:
        if name not in CURVES:
            parser.error(f"{name!r} is none of {', '.join(CURVES)}")
    well = [curve(name, max(arguments.runs, 1), arguments.long) for name in arguments.curves or CURVES]
    sys.exit(0 if all(well) else 1)


if __name__ == "__main__":
    main()
