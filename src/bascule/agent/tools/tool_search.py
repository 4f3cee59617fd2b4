"""`tool_search`: finds tools that the model has not been told of."""

from collections.abc import Sequence
from typing import ClassVar, Final

from msgspec import Raw

from bascule.agent.calls import ToolKind, ToolName, ToolOutput, ToolSearchPayload
from bascule.agent.handler import LocalHandler, ToolFault, ToolInvocation, ToolSpec, schema
from bascule.agent.ranking import Ranking
from bascule.agent.registry import in_namespace
from bascule.protocols import json

DEFAULT_LIMIT: Final = 8
_MOST: Final = 50


class ToolSearch(LocalHandler):
    """Over the deferred tools of the session. What it finds can be called from then on."""

    name = ToolName(None, "tool_search")
    takes: ClassVar[tuple[type, ...]] = (ToolSearchPayload,)
    parallel: ClassVar[bool] = True

    def __init__(self, deferred: Sequence[LocalHandler]) -> None:
        self._deferred = deferred
        documents = [(handler.name.name, _about(handler)) for handler in deferred]
        self._ranking = Ranking(documents)

    def spec(self) -> ToolSpec:
        spaces = sorted({handler.name.namespace or "" for handler in self._deferred} - {""})
        where = f" There are tools of: {', '.join(spaces)}." if spaces else ""
        return ToolSpec(
            {
                "type": "tool_search",
                "execution": "client",
                "description": "Searches for further tools by what they do. What it finds can be "
                f"called from then on.{where}",
                "parameters": schema(
                    ["query"],
                    query={
                        "type": "string",
                        "description": "What the tool should do, or its name.",
                    },
                    limit={
                        "type": "number",
                        "description": f"Tools at most; {DEFAULT_LIMIT} by default.",
                    },
                ),
            }
        )

    def kind(self) -> ToolKind:
        return ToolKind.TOOL_SEARCH

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = invocation.payload
        if not isinstance(asked, ToolSearchPayload):
            raise TypeError("tool_search has calls of its own")
        if not asked.query.strip():
            raise ToolFault("the query is empty")
        limit = min(max(asked.limit or DEFAULT_LIMIT, 1), _MOST)
        found = [self._deferred[at] for at in self._ranking.best(asked.query, limit)]
        names = ", ".join(str(handler.name) for handler in found) or "no tool was found"
        return ToolOutput(content=names, tools=[Raw(json.encode(d)) for d in declarations(found)])


def declarations(handlers: Sequence[LocalHandler]) -> list[object]:
    """Of tools that were found; those of one namespace together."""
    spaces: dict[str | None, list[LocalHandler]] = {}
    for handler in handlers:
        spaces.setdefault(handler.name.namespace, []).append(handler)
    given: list[object] = []
    for space, members in spaces.items():
        if space is not None:
            given.append(in_namespace(space, members).declaration)
        else:
            specs = [spec for handler in members if (spec := handler.spec()) is not None]
            given += [spec.declaration for spec in specs]
    return given


def _about(handler: LocalHandler) -> str:
    spec = handler.spec()
    if spec is None:
        return ""
    parameters = spec.declaration.get("parameters")
    members = (json.as_object(parameters) or {}).get("properties", {})
    return " ".join([handler.name.namespace or "", spec.about, *map(str, members)])
