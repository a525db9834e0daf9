"""Orloj beside other schedulers: three replicas and executors with fsync on, for the harness of a peer benchmark.

The harness is a module `bench` with a class `Peer` and the workloads W1, W1b, W2 and W3; its folder stands in PEERS_DIR.
ORLOJ names the binary, ORLOJ_SET options of every replica's file (KEY=VALUE, by space), BATCH and BATCH_CLIENTS how
many tasks go into one request of a bulk submission and how many callers send such requests. What differs from the defaults
stands in the peer's name."""
import os
import secrets
import sys

sys.path.insert(0, os.environ.get("PEERS_DIR", "."))
from bench import *  # noqa: E402,F403: the harness hands its names on like this

ORLOJ = os.path.abspath(os.environ.get("ORLOJ", "orloj"))
BATCH = int(os.environ.get("BATCH", 500))
BATCH_CLIENTS = int(os.environ.get("BATCH_CLIENTS", 4))
CHANGED = os.environ.get("ORLOJ_SET", "").split() + ([f"batch={BATCH}x{BATCH_CLIENTS}"] if (BATCH, BATCH_CLIENTS) != (500, 4) else [])
API = [13070 + 2 * i for i in range(3)]
INTERNAL = [port + 1 for port in API]


def write_private(path, text):
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(text)


class Orloj(Peer):
    name, datadir = "+".join(["orloj-r3-fsync", *CHANGED]), "orloj"
    bulk = f"{BATCH} tasks in a request, {BATCH_CLIENTS} callers"

    def start(self):
        self.servers, self.staffed = [], False
        try:
            return self.launch()
        except BaseException:
            # The harness stops what was started; what was started in part would run on beside the next peer.
            self.stop()
            raise

    def launch(self):
        self.dir = fresh(self.datadir)
        self.key, self.secret, self.executors = "ak_PEERS", "sk_" + secrets.token_urlsafe(32), "exs_" + secrets.token_urlsafe(32)
        write_private(f"{self.dir}/secrets.toml", f"""
cluster-secret = "cls_{secrets.token_urlsafe(32)}"
executor-secret = "{self.executors}"
[[callers]]
id = "peers"
access-key = "{self.key}"
secret-key = "{self.secret}"
requests-per-s = 1000000.0
submits-per-s = 1000000.0
""")
        members = ", ".join(f'{{ id = {i + 1}, internal = "127.0.0.1:{INTERNAL[i]}", api = "http://127.0.0.1:{API[i]}" }}' for i in range(3))
        for i in range(3):
            config = f"{self.dir}/r{i + 1}.toml"
            with open(config, "w") as f:
                f.write(f"""
secrets-file = "{self.dir}/secrets.toml"
{self.extra("")}
[store]
node-id = {i + 1}
cluster = "peers"
dir = "{self.dir}/r{i + 1}"
internal = "127.0.0.1:{INTERNAL[i]}"
api = "http://127.0.0.1:{API[i]}"
members = [{members}]
{self.extra("store.")}
[scheduler]
{self.extra("scheduler.")}
""")
            self.servers.append(Proc([ORLOJ, "server", "--config", config], f"orloj-{i + 1}"))
        for port in API:
            self.until(lambda port=port: urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).status == 200)
        return [s.pid for s in self.servers]

    def extra(self, table):
        """Wished options of one table of the file; those of no table for an empty name."""
        lines = []
        for wish in os.environ.get("ORLOJ_SET", "").split():
            key, value = wish.split("=", 1)
            if table and key.startswith(table):
                lines.append(f"{key[len(table):]} = {value}")
            elif not table and not key.startswith(("store.", "scheduler.")):
                lines.append(f"{key} = {value}")
        return "\n".join(lines)

    def until(self, holds, limit=60):
        begin, last = time.time(), None
        while time.time() - begin < limit:
            try:
                if holds():
                    return
            except Exception as e:  # not there yet, whatever it says
                last = e
            time.sleep(0.1)
        raise RuntimeError(f"not ready: {last}")

    def stop(self):
        for s in self.servers:
            if s.p.poll() is None:
                s.p.send_signal(signal.SIGTERM)
        for s in self.servers:
            s.stop(timeout=20)

    def workers(self, sleep_ms=0):
        d = fresh("rec")
        spec = {"start": {"replicas": [f"127.0.0.1:{port}" for port in INTERNAL], "secret": self.executors, "count": WORKERS, "slots": CONC,
                          "dir": f"{d}/executors", "sleepMs": sleep_ms, "warmFirst": WARM_BASE, "records": f"{d}/0.bin", "progress": f"{d}/0.n"}}
        os.makedirs(f"{d}/executors")
        write_private(f"{d}/executors.json", json.dumps(spec) + "\n")
        p = Proc([ORLOJ, "bench-part", "executors", "--spec", f"{d}/executors.json"], "orloj-executors")
        self.until(lambda: b'"ready"' in open(p.log, "rb").read())
        time.sleep(1.5)  # for their registration
        self.staffed = True
        return WorkerSet([p], [f"{d}/0.bin"], [f"{d}/0.n"])

    def submit(self, **plan):
        bulk, rate = plan.get("mode") == "bulk", plan.get("rate", 0)
        now = plan.get("warm") or plan.get("immediate")
        due = "atOnce" if now else {"spread": {"baseMs": round(plan["base-ms"]), "spreadMs": round(plan.get("spread-ms", 0))}}
        pace = {"open": {"perS": rate}} if rate else {"closed": {"clients": BATCH_CLIENTS if bulk else plan.get("clients", CLIENTS)}}
        run = {"plan": {"firstId": WARM_BASE if plan.get("warm") else 0, "count": plan["n"], "due": due, "sleepMs": 0}, "pace": pace,
               "batch": BATCH if bulk and not rate else 1, "limitS": 300,
               # A caller pays for the look whether anybody has the handler, unless nobody is meant to have it, as in W3.
               "unknownHandler": not self.staffed}
        target = {"servers": [f"http://127.0.0.1:{port}" for port in API], "accessKey": self.key, "secretKey": self.secret,
                  "audience": "default", "via": "leader"}
        path = f"{self.dir}/load.json"
        write_private(path, json.dumps({"connect": target}) + "\n" + json.dumps({"run": run}) + "\n")
        ran = run_json([ORLOJ, "bench-part", "load", "--spec", path])["ran"]
        secs = max((ran["endedUs"] - ran["startedUs"]) / 1e6, 1e-6)
        return {"n": plan["n"], "sent": ran["sent"], "ok": ran["acknowledged"], "errors": ran["errors"], "secs": secs,
                "per_s": round(ran["acknowledged"] / secs), "start_ms": ran["startedUs"] / 1e3, "end_ms": ran["endedUs"] / 1e3,
                "lat_ms": percentiles(ran["latency"])}


def percentiles(steps):
    """The steps of a histogram, [µs, count], as the harness writes latencies."""
    n = sum(count for _, count in steps)
    if n == 0:
        return None

    def at(part):
        seen = 0
        for us, count in steps:
            seen += count
            if seen >= part * n:
                return round(us / 1e3, 3)
        return round(steps[-1][0] / 1e3, 3)

    return {"p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "p999": at(0.999), "max": at(1), "n": n}


if __name__ == "__main__":
    main([Orloj()])
