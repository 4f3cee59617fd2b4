"""What an agent's tools cost, beyond their own work.

    python bench/agent.py [--repeat 30]

dispatch  a call of a tool that does nothing, in CPU µs: at most 1.6 of the floor's plain turn S1 (scripts/bench)
exec      `exec_command true` beyond spawning it: at most 15 ms, in a sandbox 40 ms
patch     500 changes of a file of 100,000 lines, verified and written: at most 500 ms
start     `bascule exec` to its first request: at most 20 times `python -c pass`
"""

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bascule.agent import Agent, LocalHandler, ToolName, ToolOutput
from bascule.agent.calls import ToolKind
from bascule.agent.handler import function
from bascule.agent.router import ToolRouter
from bascule.agent.turn import TurnContext


class Nothing(LocalHandler):
    name = ToolName(None, "nothing")
    parallel = True

    def spec(self):
        return function("nothing", "Does nothing.", {"type": "object"})

    def kind(self):
        return ToolKind.FUNCTION

    async def handle(self, invocation):
        return ToolOutput(content="done")


def item(name, arguments):
    about = {"type": "function_call", "call_id": "call_1", "name": name}
    return json.dumps({**about, "arguments": json.dumps(arguments)}).encode()


async def call(agent, name, arguments):
    session = agent.session
    read = ToolRouter(session.registry).from_turn(item(name, arguments))
    return await session.registry.dispatch(read, TurnContext(session))


async def dispatch(agent, repeat):
    session, spent = agent.session, []
    router, raw = ToolRouter(session.registry), item("nothing", {"a": 1})
    for _ in range(repeat):
        turn, before = TurnContext(session), time.process_time()
        for _ in range(200):
            await session.registry.dispatch(router.from_turn(raw), turn)
        spent.append((time.process_time() - before) / 200 * 1e6)
    return statistics.median(spent)


async def timed(repeat, work):
    spent = []
    for _ in range(repeat):
        before = time.perf_counter()
        await work()
        spent.append((time.perf_counter() - before) * 1000)
    return statistics.median(spent)


async def spawn():
    process = await asyncio.create_subprocess_exec(
        "/bin/bash", "-c", "true", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    await process.communicate()


def large_patch(folder):
    lines = [f"line {n}" for n in range(100_000)]
    (folder / "large.txt").write_text("\n".join(lines) + "\n")
    body = []
    for n in range(100, 100_000, 200):
        body += ["@@", f" line {n - 1}", f"-line {n}", f"+changed {n}", f" line {n + 1}"]
    head = ["*** Begin Patch", "*** Update File: large.txt"]
    return "\n".join([*head, *body, "*** End Patch"])


async def patch(agent, folder, repeat):
    spent = []
    for _ in range(repeat):
        text, before = large_patch(folder), time.perf_counter()
        said = await call(agent, "apply_patch", {"input": text})
        spent.append((time.perf_counter() - before) * 1000)
        if b"M large.txt" not in said:
            raise SystemExit(said.decode())
    return statistics.median(spent)


def start(repeat):
    plain, first = [], []
    for _ in range(repeat):
        before = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        plain.append(time.perf_counter() - before)
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
            command = [Path(sys.executable).parent / "bascule", "exec", "hi", "--model", "m"]
            before = time.perf_counter()
            process = subprocess.Popen(
                [*command, "--base-url", url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            connection, _ = server.accept()
            connection.recv(1024)
            first.append(time.perf_counter() - before)
            process.kill()
            process.wait()
            connection.close()
    return statistics.median(plain) * 1000, statistics.median(first) * 1000


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=30)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        work, home = Path(folder) / "work", Path(folder) / "home"
        work.mkdir()
        about = {"cwd": work, "home": home, "tools": [Nothing()]}
        async with Agent("m", sandbox="danger-full-access", **about) as agent:
            print(f"dispatch         {await dispatch(agent, repeat):8.0f} µs")
            plain = await timed(repeat, spawn)
            ran = await timed(repeat, lambda: call(agent, "exec_command", {"cmd": "true"}))
            print(f"exec             {ran - plain:8.1f} ms beyond {plain:.1f} (goal 15)")
            print(f"patch            {await patch(agent, work, 7):8.0f} ms (goal 500)")
        async with Agent("m", **about) as agent:
            ran = await timed(repeat, lambda: call(agent, "exec_command", {"cmd": "true"}))
            print(f"exec, sandboxed  {ran - plain:8.1f} ms beyond {plain:.1f} (goal 40)")
    plain, first = start(15)
    print(f"start            {first:8.0f} ms, {first / plain:.1f} of python -c pass (goal 20)")


if __name__ == "__main__":
    asyncio.run(main())
