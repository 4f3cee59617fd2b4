"""CPU per delta of a streamed answer with sources to cite, beside the same answer without any.

    .venv/bin/python bench/citing.py [--deltas 2000] [--repeat 15] [--gateway [--seconds 2]]

Alone, it measures the gateway's own way of a delta, one a read: chunks of a Chat stream are decoded, made
public and encoded as SSE. With --gateway it measures a gateway that answers over sockets, each answer in
one burst of 200 deltas, which continues a stored turn with a source or without; core 0 runs it, core 1
the model server and the load. There the goal is at most 1.1; exits with status 1 if it is missed.

Words with blanks behind them, as few models write them, are held until the next word; they and text with
a marker every 20 deltas are told of as well.
"""

import argparse
import gc
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

from compare import UPSTREAM, pinned, wait_for

from bascule.engine.accumulator import Accumulator
from bascule.engine.state import TurnState
from bascule.protocols.chat.decoder import ChatDecoder
from bascule.protocols.responses import door
from tools import BASCULE, KIT, run

GOAL = 1.1
WORDS = [
    "the",
    "river",
    "runs",
    "past",
    "old",
    "stone",
    "houses",
    "and",
    "(they",
    "say)",
    "under",
    "bridges",
    "to",
    "a",
    "'new'",
    "sea",
]


def words(count):
    return [WORDS[i % len(WORDS)] + ("." if i % 17 == 16 else "") for i in range(count)]


def plain(count):
    return [f" {word}" for word in words(count)]


def behind(count):
    return [f"{word} " for word in words(count)]


def marked(count):
    pieces = []
    for i in range(0, count, 20):
        pieces += [*plain(14), " [", "cite", ":", str(i % 3 + 1), "]", "."]
    return pieces


def chunks(pieces):
    """Each as a read of a Chat stream."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    reads = []
    for piece in pieces:
        choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
        reads.append(b"data: %b\n\n" % json.dumps({**head, "choices": [choice]}).encode())
    return reads


def answer(reads, sources):
    """CPU seconds of one answer."""
    state = TurnState(response_id="resp_1", owner="")
    for i in range(sources):
        state.citations.cite(f"https://example.org/{i}", f"Source {i}")
    written = []

    def emit(batch):
        written.append(door.encode(batch))

    accumulator = Accumulator(state, emit=emit, sealer=None, upstream="u", model="m")
    accumulator.begin_round(lambda _: None, lambda _: False, lambda _: None)
    decoder = ChatDecoder()
    began = time.process_time()
    for read in reads:
        accumulator.feed(decoder.feed(read))
    accumulator.feed(decoder.feed(b"data: [DONE]\n\n"))
    spent = time.process_time() - began
    accumulator.release()
    return spent


def ratio(reads, repeat):
    """Microseconds per delta without and with sources, and the ratio: the best of each, taken by turns."""
    without, with_ = [], []
    answer(reads, 10)
    gc.collect()
    for _ in range(repeat):
        without.append(answer(reads, 0))
        with_.append(answer(reads, 10))
    base, cited = min(without), min(with_)
    middle = statistics.median(b / a for a, b in zip(without, with_, strict=True))
    return base / len(reads) * 1e6, cited / len(reads) * 1e6, cited / base, middle


TOOL = """
import msgspec

from bascule.plugin import Declaration, GatewayTool, ToolOptions


class Arguments(msgspec.Struct):
    cite: bool = True


class Options(ToolOptions, frozen=True):
    pass


class Cite(GatewayTool[Arguments, Options, Declaration]):
    "Gives a source."

    type = "bench:cite"

    async def run(self, arguments, declared, context):
        return context.citations.cite("https://example.org/", "A source")


class Plain(GatewayTool[Arguments, Options, Declaration]):
    "Gives none."

    type = "bench:plain"

    async def run(self, arguments, declared, context):
        return 1
"""

CONFIG = """
[server]
port = {port}
[state]
url = "sqlite:///{folder}/state.db"
[[upstreams]]
name = "bench"
profile = "openai"
base_url = "http://127.0.0.1:{upstream}/v1"
"""


def started(folder, processes):
    """The gateway's process."""
    about = Path(folder) / "bench_cite-1.0.dist-info"
    about.mkdir()
    (Path(folder) / "bench_cite.py").write_text(TOOL)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bench_cite\nVersion: 1.0\n")
    entries = "[bascule.tools]\ncite = bench_cite:Cite\nplain = bench_cite:Plain\n"
    (about / "entry_points.txt").write_text(entries)
    config = Path(folder) / "bascule.toml"
    config.write_text(CONFIG.format(port=BASCULE, folder=folder, upstream=UPSTREAM))
    upstream = [sys.executable, str(KIT / "upstream.py"), "--port", str(UPSTREAM), "--unique-ids"]
    processes.append(pinned(1, upstream, stdout=subprocess.DEVNULL))
    command = [sys.executable, "-m", "bascule.cli", "serve", "--config", str(config)]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes.append(pinned(0, command, env={**os.environ, "PYTHONPATH": folder}, **silent))
    wait_for(f"http://127.0.0.1:{UPSTREAM}/health", processes[0])
    wait_for(f"http://127.0.0.1:{BASCULE}/health", processes[1])
    return processes[1].pid


def first_turn(type_):
    """The id of a stored turn in which the tool was called."""
    body = {"model": "fake-tool", "input": "Hello", "tools": [{"type": type_}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{BASCULE}/v1/responses", json.dumps(body).encode()
    )
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        response = json.load(answer)
    if response["status"] != "completed" or len(response["output"]) < 2:
        raise SystemExit(f"{type_}: {response}")
    return response["id"]


def per_delta(pid, folder, previous, seconds):
    """CPU microseconds of the gateway."""
    body = {"model": "fake-200", "input": "More", "stream": True, "store": False}
    path = Path(folder) / "body.json"
    path.write_text(json.dumps({**body, "previous_response_id": previous}))
    command = ["taskset", "-c", "1", sys.executable, str(KIT / "load.py")]
    command += ["--base", f"http://127.0.0.1:{BASCULE}", "--kind", "responses", "--body", str(path)]
    command += ["--model", "fake-200", "--conns", "8", "--seconds", str(seconds), "--stream"]
    before = run.cpu(pid)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    if result["bad"] or not result["ok"]:
        raise SystemExit(str(result))
    return (run.cpu(pid) - before) / result["ok"] / 200 * 1e6


def gateway(seconds):
    """Without and with sources: the median ratio of pairs, of runs side by side."""
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            pid = started(folder, processes)
            ids = [first_turn("bench:plain"), first_turn("bench:cite")]
            rows = [[per_delta(pid, folder, id_, seconds) for id_ in ids] for _ in range(9)]
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(20)
    base, cited = (min(row[i] for row in rows) for i in (0, 1))
    middle = statistics.median(b / a for a, b in rows)
    print(
        f"{'gateway, in bursts':<24}{base:>10.2f}{cited:>10.2f}{cited / base:>8.3f}{middle:>8.3f}"
    )
    return middle


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--deltas", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    print(f"{'text':<24}{'plain µs':>10}{'cited µs':>10}{'ratio':>8}{'median':>8}")
    for name, make in (("plain", plain), ("blanks behind", behind), ("marked", marked)):
        base, cited, best, middle = ratio(chunks(make(args.deltas)), args.repeat)
        print(f"{name:<24}{base:>10.2f}{cited:>10.2f}{best:>8.3f}{middle:>8.3f}")
    if args.gateway:
        sys.exit(1 if gateway(args.seconds) > GOAL else 0)


if __name__ == "__main__":
    main()
