#!/usr/bin/env python3
"""Where a process spends its time: the stacks of `perf script` on standard input, by part of the product.

    perf record --call-graph dwarf,16384 -F 199 -p PID -- sleep 5
    perf script | scripts/cpu-by-part.py

A sample belongs to the first part that its stack, read from the inside out, names. With --cpu-s and --tasks, the CPU time
that the process used and the tasks that ended meanwhile, also the time of each part for a task; profile-leader.py does all
of it."""
import argparse
import re
import sys
from collections import Counter
from itertools import chain

# Each frame is held against them in this order, so what is narrower comes first.
PARTS = [(name, re.compile(pattern)) for name, pattern in [
    ("state: RocksDB's flush and compaction", r"BGWork|BackgroundCompaction|BackgroundFlush|CompactionJob|FlushJob"),
    ("log: write and fdatasync", r"orloj_raft_store::log|log::writer|LogWriter"),
    ("state: RocksDB's writes", r"rocksdb::DBImpl::Write|rocksdb_write"),
    ("state: RocksDB's reads", r"rocksdb::DBImpl::Get|rocksdb_get|rocksdb::DBIter|rocksdb_iter|ArenaWrappedDBIter"),
    ("apply: the pure part and its rows", r"orloj_model::|orloj_raft_store::(applier|codec|events|machine|overlay|tables)"),
    ("signature, limits, nonces", r"aws_lc|sha2|orloj_wire::sign|orloj_api::(auth|sign|gate|limit)"),
    ("dispatch: wheel, placement, leases, pushes", r"orloj_scheduler::"),
    ("API: requests and answers", r"orloj_api::|orloj_wire::|serde_json"),
    ("Raft: openraft and the transport", r"openraft::|orloj_raft_store::"),
    ("HTTP: hyper, axum, sockets", r"hyper|axum|h2::|tcp_|sock_|mio::net|TcpStream"),
    ("runtime: tokio, wake-ups, epoll", r"tokio::|epoll|futex"),
]]


def part_of(frames):
    for frame in frames:
        for name, pattern in PARTS:
            if pattern.search(frame):
                return name
    return "other"


def stacks(lines):
    """The frames of each sample, innermost first: the indented lines up to the blank one."""
    frames = []
    for line in chain(lines, [""]):
        if line.startswith(("\t", " ")):
            frames.append(line.strip().split(" ", 1)[-1])
        elif not line.strip():
            if frames:
                yield frames
            frames = []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-s", type=float, default=0.0, help="CPU time of the process while it was recorded, in s")
    parser.add_argument("--tasks", type=float, default=0.0, help="tasks that ended meanwhile")
    arguments = parser.parse_args()
    counts = Counter(map(part_of, stacks(sys.stdin)))
    total = sum(counts.values()) or 1
    task_us = arguments.cpu_s / arguments.tasks * 1e6 if arguments.tasks > 0 else 0.0
    for name, count in counts.most_common():
        share = count / total
        of_task = f"{share * task_us:7.1f} µs a task  " if task_us > 0 else ""
        print(f"{100 * share:5.1f} %  {of_task}{name}")
    if task_us > 0:
        print(f"100.0 %  {task_us:7.1f} µs a task  all of the process")


if __name__ == "__main__":
    main()
