#!/usr/bin/env python3
"""Where a process spends its time: the stacks of `perf script` on standard input, by part of the product.

    perf record --call-graph dwarf,16384 -F 199 -p PID -- sleep 5
    perf script | scripts/cpu-by-part.py

A sample belongs to the first part that its stack, read from the inside out, names."""
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
    ("apply: the pure part and its rows", r"orloj_model::|orloj_raft_store::(machine|tables|codec)"),
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
    counts = Counter(map(part_of, stacks(sys.stdin)))
    total = sum(counts.values()) or 1
    for name, count in counts.most_common():
        print(f"{100 * count / total:5.1f} %  {name}")


if __name__ == "__main__":
    main()
