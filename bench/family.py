"""What it costs to flatten 300 tools in 30 namespaces and to restore a call: µs, the first time and again."""

import asyncio
import gc
import json
import time

from msgspec import Raw

from bascule.protocols.chat.upstream import ChatUpstream
from bascule.protocols.upstream import CHAT_SURFACE
from bascule.toolkit.handler import Brought
from bascule.toolkit.names import Ledger
from bascule.toolkit.plan_cache import PlanCache
from bascule.toolkit.prepare import DEFAULT_LIMITS, plan_tools
from bascule.tools.all import all_handlers
from bascule.upstreams.profiles import PROFILES

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}


def namespaces():
    return [
        {
            "type": "namespace",
            "name": f"server_{n}",
            "description": "Tools of a server.",
            "tools": [
                {
                    "type": "function",
                    "name": f"tool_{i}",
                    "description": "Looks.",
                    "parameters": SCHEMA,
                }
                for i in range(10)
            ],
        }
        for n in range(30)
    ]


async def costs(*, additional: bool, repeat: int = 60):
    """(first, again): the best of some. `additional` brings them by an item of the history."""
    handlers, flags = all_handlers(), PROFILES["vllm"].flags_for("chat")
    upstream = ChatUpstream()
    declared = namespaces()
    source = b"" if additional else json.dumps(declared).encode()
    split = [] if additional else [Raw(json.dumps(tool).encode()) for tool in declared]
    later = [
        Brought(Raw(json.dumps(tool).encode()), f"input[0].tools[{i}]")
        for i, tool in enumerate(declared if additional else [])
    ]

    async def turn(cache):
        begun = time.process_time()
        plan = await plan_tools(
            source,
            lambda: split,
            handlers=handlers,
            names=Ledger(64),
            limits=DEFAULT_LIMITS,
            cache=cache,
            surface=CHAT_SURFACE,
            later=later,
        )
        plan.encoded("x", lambda offered: upstream.encode_tools(offered, flags))
        assert plan.registry.lookup("server_3__tool_7").identity == (
            "server_3",
            "tool_7",
            "function",
        )
        return (time.process_time() - begun) * 1e6

    gc.collect()
    gc.freeze()
    first = min([await turn(PlanCache()) for _ in range(repeat)])
    kept = PlanCache()
    await turn(kept)
    return first, min([await turn(kept) for _ in range(10 * repeat)])


if __name__ == "__main__":
    for additional in (False, True):
        print(
            "additional_tools" if additional else "tools", asyncio.run(costs(additional=additional))
        )
