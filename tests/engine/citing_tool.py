"""`lookup` as a tool with sources: each call gives those that its arguments name."""

from collections.abc import Callable
from typing import Any

import msgspec

from bascule.testing import Call
from bascule.toolkit.citations import Citations
from bascule.toolkit.executor import ExecutionContext
from bascule.toolkit.markers import INSTRUCTION, shown
from bascule.toolkit.outcome import Call as ToolCall
from bascule.toolkit.outcome import Outcome, Output
from tests.engine.lookup_tool import LookupExecutor, found, install

Json = dict[str, Any]


class SourceExecutor(LookupExecutor):
    """Cites `https://SITE/` with the title SITE for each of `sites`."""

    def __init__(self) -> None:
        super().__init__(found)
        self.keys: list[int | None] = []
        self.seen: list[Citations] = []

    async def execute(self, call: ToolCall, params: Any, context: ExecutionContext) -> Outcome:
        sites: list[str] = msgspec.json.decode(call.arguments)["sites"]
        self.seen.append(context.citations)
        results: list[str] = []
        for site in sites:
            key = context.citations.cite(url(site), site)
            self.keys.append(key)
            results.append(shown(key, url(site), site))
        return Output(output="\n".join([*results, INSTRUCTION]))


def url(site: str) -> str:
    return f"https://{site}/"


def sources(*sites: str, id_: str = "call_1") -> Call:
    """What the model writes to get these."""
    return Call("lookup", {"sites": list(sites)}, id=id_)


def citation(site: str, start: int, end: int) -> Json:
    return {
        "type": "url_citation",
        "url": url(site),
        "title": site,
        "start_index": start,
        "end_index": end,
    }


def install_sources() -> Callable[[Any], None]:
    """For `serving(adjust=...)`."""
    return install(SourceExecutor())
