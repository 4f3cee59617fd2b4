"""Measures Bascule beside the uvicorn+aiohttp floor, in one run, and says how the ratios stand.

    scripts/bench [--quick] [--only S1,S2,S3,S5,S6,store] [--repeat N] [--out FILE]

Core 0 runs the gateway under test, core 1 the fake model server and the load. Figures are CPU of the
gateway's whole process tree; only ratios within one run mean anything on a shared machine, so the
floor is measured before and after.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
KIT = HERE / "kit"
UPSTREAM, FLOOR, BASCULE, FLOOR_RELAY = 9100, 9212, 9213, 9214

GOALS = {
    "S1": ("cpu_us_per_request", 1.1, "1 kB prompt, 200 words back, no stream"),
    "S2": ("cpu_us_per_delta", 1.1, "stream of 200 deltas in one burst"),
    "S3": ("cpu_us_per_delta", 1.3, "the same, relayed to a server that speaks Responses"),
    "S5": ("cpu_us_per_delta", 0.8, "500 paced streams"),
    "S6": ("cpu_us_per_request", 1.0, "311 kB request: 200 items, 100 tools"),
}
STORE_GOAL = 2.7


def pinned(core, command, **kwargs):
    return subprocess.Popen(["taskset", "-c", str(core), *command], **kwargs)


def wait_for(url, process):
    for _ in range(300):
        if process.poll() is not None:
            raise SystemExit(f"{process.args} ended with {process.returncode}")
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nothing answers at {url}")


class Bench:
    def __init__(self, args):
        self.args = args
        self.lines = []

    def run(self, name, port, pid, scenarios, *extra):
        seconds = "1" if self.args.quick else "2"
        repeat = "1" if self.args.quick else str(self.args.repeat)
        with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as out:
            command = [sys.executable, str(KIT / "run.py"), "--name", name, "--base"]
            command += [f"http://127.0.0.1:{port}", "--pid", str(pid), "--upstream"]
            command += [f"http://127.0.0.1:{UPSTREAM}", "--cpu", "1", "--repeat", repeat]
            command += ["--seconds", seconds, "--scenarios", scenarios, "--out", out.name, *extra]
            subprocess.run(command, check=True)
            rows = [json.loads(line) for line in out]
        self.lines += rows
        return rows


def median(rows, key):
    values = [row[key] for row in rows if row.get(key) is not None]
    return statistics.median(values) if values else float("nan")


def floor(env, port=FLOOR):
    command = [sys.executable, "-m", "uvicorn", "--loop", "uvloop", "--http", "httptools", "--ws"]
    command += ["none", "--no-access-log", "--log-level", "warning", "--port", str(port)]
    return pinned(0, [*command, "asgi_aiohttp:app"], cwd=KIT / "floor", env=env)


def bascule(folder):
    config = Path(folder) / "bascule.toml"
    config.write_text(
        f"""
[server]
port = {BASCULE}
[state]
url = "sqlite:///{folder}/state.db"
[[upstreams]]
name = "native"
profile = "openai"
protocol = "responses"
base_url = "http://127.0.0.1:{UPSTREAM}/v1"
models = ["native-*"]
[[upstreams]]
name = "bench"
profile = "openai"
base_url = "http://127.0.0.1:{UPSTREAM}/v1"
"""
    )
    command = [sys.executable, "-m", "bascule.cli", "serve", "--config", str(config)]
    return pinned(0, command, stdout=subprocess.DEVNULL)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    parser.add_argument("--only", default="S1,S2,S3,S5,S6,store")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--streams", default="500", help="of S5; fewer on a machine that 500 fill")
    parser.add_argument("--out", type=Path, help="append the raw JSON lines here")
    return parser.parse_args()


def main():
    args = arguments()
    bench = Bench(args)
    wanted = args.only.split(",")
    env = {**os.environ, "UPSTREAM": f"http://127.0.0.1:{UPSTREAM}", "TRANSLATE": "1"}
    processes = [pinned(1, [sys.executable, str(KIT / "upstream.py"), "--port", str(UPSTREAM)])]
    report, missed = [], []
    with tempfile.TemporaryDirectory() as folder:
        try:
            processes += [floor(env), bascule(folder)]
            relaying = {name: value for name, value in env.items() if name != "TRANSLATE"}
            processes.append(floor(relaying, FLOOR_RELAY))
            wait_for(f"http://127.0.0.1:{UPSTREAM}/health", processes[0])
            wait_for(f"http://127.0.0.1:{BASCULE}/health", processes[2])
            wait_for(f"http://127.0.0.1:{FLOOR}/health", processes[1])
            wait_for(f"http://127.0.0.1:{FLOOR_RELAY}/health", processes[3])
            check = [sys.executable, str(KIT / "check.py"), "--kind", "responses"]
            check += ["--base", f"http://127.0.0.1:{BASCULE}", "--tool-model", "fake-tool"]
            subprocess.run(check, check=True)
            pids = processes[1].pid, processes[2].pid
            for scenario, (key, goal, what) in GOALS.items():
                if scenario in wanted:
                    base = (FLOOR_RELAY, processes[3].pid) if scenario == "S3" else (FLOOR, pids[0])
                    measure(bench, scenario, key, goal, what, base, pids[1], report, missed)
            if "store" in wanted:
                measure_store(bench, pids, report, missed)
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(20)
    print("\n| scenario | floor | Bascule | ratio | goal |\n|---|---|---|---|---|")
    print("\n".join(report))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("a") as out:
            out.writelines(json.dumps(line) + "\n" for line in bench.lines)
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def measure(bench, scenario, key, goal, what, floor, pid, report, missed):
    extra = ["--streams", bench.args.streams] if scenario == "S5" else []
    extra += ["--model", "S3=native-fake-200"] if scenario == "S3" else []
    before = bench.run("floor", *floor, scenario, *extra)
    ours = bench.run("bascule", BASCULE, pid, scenario, *extra)
    after = [] if scenario == "S5" else bench.run("floor", *floor, scenario, *extra)
    base, value = median(before + after, key), median(ours, key)
    bad = sum(row["bad"] for row in ours)
    unit = "µs/request" if key.endswith("request") else "µs/delta"
    verdict = "" if value <= goal * base and not bad else " **missed**"
    if verdict:
        missed.append(scenario)
    failed = f", {bad} failed" if bad else ""
    report.append(
        f"| {scenario}: {what} | {base:.4g} {unit} | {value:.4g} {unit}{failed} "
        f"| {value / base:.2f} | {goal}{verdict} |"
    )


def measure_store(bench, pids, report, missed):
    key = "cpu_us_per_request"
    floor_rows = bench.run("floor", FLOOR, pids[0], "S1", "--conns", "32")
    plain = bench.run("bascule", BASCULE, pids[1], "S1", "--conns", "32")
    stored = bench.run("bascule store", BASCULE, pids[1], "S1", "--conns", "32", "--store")
    base = median(floor_rows, key)
    more = median(stored, key) - median(plain, key)
    verdict = "" if more <= STORE_GOAL * base else " **missed**"
    if verdict:
        missed.append("store")
    report.append(
        f"| S1 stored at 32 turns, more than not stored | {base:.4g} µs/request "
        f"| +{more:.4g} µs/request | {more / base:.2f} | {STORE_GOAL}{verdict} |"
    )


if __name__ == "__main__":
    main()
