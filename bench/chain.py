"""What a turn costs at the beginning and at the end of a chain.

    python bench/chain.py [--turns 120] [--chains 20] [--window 10]

A gateway process in front of the scripted model server; the CPU of the gateway alone, for the first turns
of all chains and for the last ones. The history's own bytes grow, and go to the model's server each time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request

TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICK


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def started(*arguments):
    command = [sys.executable, "-m", "bascule.cli", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    line = process.stdout.readline()
    return process, line.rpartition(" ")[2].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=120)
    parser.add_argument("--chains", type=int, default=20)
    parser.add_argument("--window", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.json")
        with open(script, "w") as f:
            json.dump({"replies": ["A short answer."], "then": "repeat"}, f)
        model, upstream = started("mock", "--script", script)
        state = f"sqlite:///{folder}/state.db"
        gateway, url = started(
            "serve",
            "--port",
            "0",
            "--upstream",
            f"{upstream}/v1",
            "--profile",
            "openai",
            "--state",
            state,
        )
        try:
            measure(args, gateway.pid, f"{url}/v1/responses")
        finally:
            for process in (gateway, model):
                process.terminate()
                process.wait(20)


def measure(args, pid, url):
    last = [None] * args.chains
    spent = []
    for turn in range(args.turns):
        before = cpu(pid)
        for chain in range(args.chains):
            body = {"model": "mock-model", "input": f"Turn {turn}."}
            if last[chain]:
                body["previous_response_id"] = last[chain]
            last[chain] = post(url, body)["id"]
        spent.append(cpu(pid) - before)
    count = args.window * args.chains
    # The first turn of all has nothing to load.
    first = sum(spent[1 : args.window + 1]) / count * 1e6
    final = sum(spent[-args.window :]) / count * 1e6
    # What the same history costs a client that sends it itself: its own bytes.
    short, whole = (plain(pid, url, messages, count) for messages in (1, 2 * args.turns - 10))
    apart = (final - (whole - short)) / first
    print(
        f"turns 2-{args.window + 1}: {first:.0f} µs, the last {args.window}: {final:.0f} µs, "
        f"ratio {final / first:.2f}"
    )
    print(f"sent whole and not stored: {short:.0f} µs short, {whole:.0f} µs as long")
    print(f"ratio with the history's own bytes apart: {apart:.2f} (goal 1.3)")


def plain(pid, url, messages, count):
    roles = ("user", "assistant")
    items = [{"role": roles[n % 2], "content": f"Turn {n}."} for n in range(messages)]
    before = cpu(pid)
    for _ in range(count):
        post(url, {"model": "mock-model", "input": items, "store": False})
    return (cpu(pid) - before) / count * 1e6


if __name__ == "__main__":
    main()
