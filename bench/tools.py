"""What tools cost, beside the minimal gateway's plain turn, in one run.

    python bench/tools.py [--seconds 2] [--repeat 3]

T1  a turn with one call that the gateway runs (in process), over two rounds: at most 3 plain turns
T2  four parallel calls of 300 ms and 300 ms of text behind them: at most 1.15 x 300 ms, beyond what the
    rounds take
T3  a turn with 128 tools, the same each time: at most 1.5 plain turns
300 tools in 30 namespaces, flattened and found again for a call: at most 15 plain turns the first time, 1.5
    when they are known (in this process)
restored  a call of a namespaced or a custom tool, streamed: at most 1.3 of a plain call, per delta
Core 0 runs the gateways, core 1 the model servers and the load.
"""

import argparse
import asyncio
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

from compare import FLOOR, KIT, UPSTREAM, floor, pinned, wait_for

sys.path.insert(0, str(KIT))

import bodies
import family
import run

HERE = Path(__file__).parent
BASCULE, CALLS = 9215, 9101
WAITING = 0.3

TOOLS = """
import asyncio

from bascule import tool


@tool("bench:echo")
async def echo(text: str = "") -> str:
    "Says it again."
    return text


@tool("bench:wait", parallel=True)
async def wait(text: str = "") -> str:
    "Takes its time."
    await asyncio.sleep(%s)
    return text
"""

CONFIG = """
[server]
port = {port}
[state]
url = "sqlite:///{folder}/state.db"
[tools]
modules = ["{folder}/bench_tools.py"]
[[upstreams]]
name = "calls"
profile = "openai"
base_url = "http://127.0.0.1:{calls}/v1"
models = ["call:*"]
[[upstreams]]
name = "slow"
profile = "openai"
base_url = "{slow}/v1"
models = ["mock-model"]
[[upstreams]]
name = "bench"
profile = "openai"
base_url = "http://127.0.0.1:{upstream}/v1"
"""

SMALL = {
    "type": "function",
    "description": "Looks something up and gives what was found.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
    },
}
FIND = {"type": "function", "name": "find", "parameters": {"type": "object"}}


def request(model, tools, *, stream=False):
    body = {"model": model, "input": bodies.prose(1000), "stream": stream, "store": False}
    return {**body, "tools": tools} if tools else body


def bodies_of(scenario):
    many = [{**SMALL, "name": f"tool_{i}"} for i in range(128)]
    calls = {
        "plain call": ("call:find", FIND),
        "namespaced": ("call:crm__find", {"type": "namespace", "name": "crm", "tools": [FIND]}),
        "custom": ("call:run", {"type": "custom", "name": "run"}),
    }
    if scenario in calls:
        model, tool = calls[scenario]
        return request(model, [tool], stream=True)
    return {
        "S1": request("fake-200", []),
        "T1": request("fake-tool", [{"type": "bench:echo"}]),
        "T3": request("fake-200", many),
    }[scenario]


def slow_script(folder):
    """The model calls four times, and goes on to write."""
    calls = [
        {"call": {"name": "bench:wait", "arguments": {"text": "x"}, "id": f"call_{i}"}}
        for i in range(4)
    ]
    text = [step for _ in range(3) for step in ({"text": "and more "}, {"delay": WAITING / 3})]
    path = Path(folder) / "slow.json"
    path.write_text(json.dumps({"replies": [[*calls, *text], "Done."] * 10}))
    return path


def measure(args, folder, port, pid, scenario):
    """CPU µs of the gateway for a request."""
    path = Path(folder) / "body.json"
    body = bodies_of(scenario)
    path.write_text(json.dumps(body))
    command = ["taskset", "-c", "1", sys.executable, str(KIT / "load.py")]
    command += ["--base", f"http://127.0.0.1:{port}", "--kind", "responses", "--body", str(path)]
    command += ["--model", "fake-0", "--conns", "8", "--seconds", str(args.seconds)]
    command += ["--stream"] if body["stream"] else []
    spent = []
    for _ in range(args.repeat):
        before = run.cpu(pid)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout)
        if result["bad"] or not result["ok"]:
            raise SystemExit(f"{scenario}: {result}")
        spent.append((run.cpu(pid) - before) / result["ok"] * 1e6)
    return statistics.median(spent)


def seconds_of(url, tools):
    body = json.dumps(request("mock-model", tools, stream=True)).encode()
    began = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:
        answer.read()
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    env = {**os.environ, "UPSTREAM": f"http://127.0.0.1:{UPSTREAM}", "TRANSLATE": "1"}
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench_tools.py").write_text(TOOLS % WAITING)
        try:
            report = compare(args, folder, env, processes)
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(20)
    print("| scenario | base | Bascule | ratio | goal |\n|---|---|---|---|---|")
    print("\n".join(report))


def compare(args, folder, env, processes):
    processes.append(pinned(1, [sys.executable, str(KIT / "upstream.py"), "--port", str(UPSTREAM)]))
    calls = [sys.executable, str(HERE / "tool_upstream.py"), "--port", str(CALLS)]
    processes.append(pinned(1, calls))
    mock = [sys.executable, "-m", "bascule.cli", "mock", "--script", str(slow_script(folder))]
    slow = pinned(1, mock, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    processes.append(slow)
    url = slow.stdout.readline().rpartition(" ")[2].strip()
    config = Path(folder) / "bascule.toml"
    config.write_text(
        CONFIG.format(port=BASCULE, folder=folder, calls=CALLS, slow=url, upstream=UPSTREAM)
    )
    command = [sys.executable, "-m", "bascule.cli", "serve", "--config", str(config)]
    gateway = pinned(0, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    processes += [gateway, floor(env)]
    wait_for(f"http://127.0.0.1:{UPSTREAM}/health", processes[0])
    wait_for(f"http://127.0.0.1:{BASCULE}/health", gateway)
    wait_for(f"http://127.0.0.1:{FLOOR}/health", processes[-1])
    report = []

    def line(name, base, value, goal, unit="µs"):
        missed = "" if value <= goal * base else " **missed**"
        report.append(
            f"| {name} | {base:.4g} {unit} | {value:.4g} {unit} "
            f"| {value / base:.2f} | {goal}{missed} |"
        )

    plain = measure(args, folder, FLOOR, processes[-1].pid, "S1")
    line("T1: one gateway call, two rounds", plain, ours(args, folder, gateway, "T1"), 3)
    line("T3: 128 tools", plain, ours(args, folder, gateway, "T3"), 1.5)
    for name, additional in (("tools", False), ("additional_tools", True)):
        first, again = asyncio.run(family.costs(additional=additional))
        line(f"300 tools in 30 namespaces ({name}), the first time", plain, first, 15)
        line(f"300 tools in 30 namespaces ({name}), again", plain, again, 1.5)
    call = ours(args, folder, gateway, "plain call")
    for name in ("namespaced", "custom"):
        line(f"restored: a {name} call", call, ours(args, folder, gateway, name), 1.3)
    url = f"http://127.0.0.1:{BASCULE}/v1/responses"
    rounds = min(seconds_of(url, [FIND]) for _ in range(3)) - WAITING
    took = min(seconds_of(url, [{"type": "bench:wait"}]) for _ in range(3)) - rounds
    line("T2: four calls of 300 ms and text", WAITING, took, 1.15, "s")
    return report


def ours(args, folder, gateway, scenario):
    return measure(args, folder, BASCULE, gateway.pid, scenario)


if __name__ == "__main__":
    main()
