"""CPU per delta of a streamed answer with sources to cite, beside the same answer without any.

    .venv/bin/python bench/citing.py [--deltas 2000] [--repeat 15]

The gateway's own way of a delta, with one delta a read: chunks of a Chat stream are decoded, made public
and encoded as SSE; no sockets, which would only add to both sides. The goal is at most 1.1 for text
without markers. Exits with status 1 if it is missed. Words with blanks behind them, as few models write
them, are held until the next word; they and text with a marker every 20 words are told as well.
"""

import argparse
import gc
import json
import statistics
import sys
import time

from bascule.engine.accumulator import Accumulator
from bascule.engine.state import TurnState
from bascule.protocols.chat.decoder import ChatDecoder
from bascule.protocols.responses import door

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--deltas", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=15)
    args = parser.parse_args()
    missed = False
    print(f"{'text':<24}{'plain µs':>10}{'cited µs':>10}{'ratio':>8}{'median':>8}")
    for name, make in (("plain", plain), ("blanks behind", behind), ("marked", marked)):
        base, cited, best, middle = ratio(chunks(make(args.deltas)), args.repeat)
        print(f"{name:<24}{base:>10.2f}{cited:>10.2f}{best:>8.3f}{middle:>8.3f}")
        missed |= name == "plain" and best > GOAL
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
