"""Responses as an upstream."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bascule.protocols.errors import ApiError
from bascule.protocols.flags import Flags
from bascule.protocols.function import Offered, WireChoice
from bascule.protocols.responses.decoder import ResponsesDecoder
from bascule.protocols.responses.encoder import Encoded, encode_request, encode_tools
from bascule.protocols.responses.items import Flat
from bascule.protocols.responses.request import TurnRequest
from bascule.protocols.upstream import ModelSurface
from bascule.protocols.upstream_errors import http_error


class ResponsesUpstream:
    """See UpstreamProtocol."""

    name = "responses"
    path = "/responses"

    def surface(self, flags: Flags) -> ModelSurface:
        hosted = flags.hosted_tools
        return ModelSurface(
            items=True,
            hosted="all" if hosted == "all" else frozenset(hosted),
            custom=flags.custom_tools,
            family=not flags.flatten_tool_search_family,
            name_limit=flags.name_limit,
        )

    def encode_tools(self, tools: Sequence[Offered], flags: Flags) -> bytes:
        return encode_tools(tools, flags)

    def encode_request(
        self,
        request: TurnRequest,
        *,
        model: str,
        items: Iterable[Flat],
        tools: bytes,
        choice: WireChoice,
        flags: Flags,
        constraint: Mapping[str, Any] | None = None,
    ) -> Encoded:
        return encode_request(
            request,
            model=model,
            items=items,
            tools=tools,
            choice=choice,
            flags=flags,
            constraint=constraint,
        )

    def decoder(self, *, summarise: bool, logprobs: bool) -> ResponsesDecoder:
        return ResponsesDecoder()

    def http_error(self, status: int, body: bytes, retry_after: str | None) -> ApiError:
        return http_error(status, body, retry_after)
