#!/usr/bin/env python3
"""The CPU time of the leader for each task, by part of the product: records the replica that leads on this machine with
`perf` for some seconds, while a load runs, and divides what it used by the tasks that ended meanwhile.

    orloj bench max --seconds 120 --keep &
    scripts/profile-leader.py --seconds 4

Takes replicas without TLS, by their command line `orloj server --config FILE`. Ends with 1 when nobody leads, or when the
leadership moved meanwhile."""
import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from pathlib import Path

HZ = 199


def replicas(folder):
    """Process id and public address of each replica whose configuration file lies in the folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if len(words) < 4 or words[1:3] != ["server", "--config"] or not words[3].startswith(folder):
                continue
            config = tomllib.loads(Path(words[3]).read_text())
        except OSError:
            continue  # it has ended, or is another's
        yield int(process.name), config["store"]["api"].rstrip("/")


def metrics(api):
    """The figures of a replica by name, without those that have labels."""
    with urllib.request.urlopen(f"{api}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.split(" ")[:2] for line in lines if line and not line.startswith("#")]
    return {name: float(value) for name, value in pairs if "{" not in name}


def leads(api):
    try:
        return metrics(api).get("orloj_node_leads") == 1
    except OSError:
        return False


def cpu_s(pid):
    # The name is in parentheses and may hold anything; user and system time are the fields 14 and 15.
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=4, help="how long (4); reading what was recorded takes ten times as long")
    parser.add_argument("--folder", default="", help="take only replicas whose configuration lies below it")
    arguments = parser.parse_args()
    leader = next(((pid, api) for pid, api in replicas(arguments.folder) if leads(api)), None)
    if leader is None:
        sys.exit("no replica on this machine leads")
    pid, api = leader
    with tempfile.TemporaryDirectory() as scratch:
        data = os.path.join(scratch, "perf.data")
        before, cpu_before = metrics(api)["orloj_scheduler_reports_total"], cpu_s(pid)
        subprocess.run(["perf", "record", "--quiet", "--call-graph", "dwarf,16384", "-F", str(HZ), "-o", data, "-p", str(pid),
                        "--", "sleep", str(arguments.seconds)], check=True)
        tasks, used_s = metrics(api)["orloj_scheduler_reports_total"] - before, cpu_s(pid) - cpu_before
        if not leads(api):
            sys.exit("the leadership moved meanwhile")
        print(f"process {pid} at {api}: {tasks:.0f} reports, {used_s:.2f} s of CPU time", flush=True)
        script = subprocess.Popen(["perf", "script", "-i", data], stdout=subprocess.PIPE)
        by_part = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cpu-by-part.py")
        subprocess.run([sys.executable, by_part, "--cpu-s", str(used_s), "--tasks", str(tasks)], stdin=script.stdout, check=True)
        script.stdout.close()
        if script.wait() != 0:
            sys.exit("perf script failed")


if __name__ == "__main__":
    main()
