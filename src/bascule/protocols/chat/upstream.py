"""Chat Completions as an upstream."""

from collections.abc import Iterable, Sequence

from bascule.protocols.chat.decoder import ChatDecoder
from bascule.protocols.chat.encoder import Encoded, encode_functions, encode_request
from bascule.protocols.chat.errors import http_error
from bascule.protocols.errors import ApiError
from bascule.protocols.flags import Flags
from bascule.protocols.function import FunctionSpec, WireChoice
from bascule.protocols.responses.items import Flat
from bascule.protocols.responses.request import TurnRequest


class ChatUpstream:
    """See UpstreamProtocol."""

    path = "/chat/completions"

    def encode_functions(self, functions: Sequence[FunctionSpec], flags: Flags) -> bytes:
        return encode_functions(functions, flags)

    def encode_request(
        self,
        request: TurnRequest,
        *,
        model: str,
        items: Iterable[Flat],
        tools: bytes,
        choice: WireChoice,
        flags: Flags,
    ) -> Encoded:
        return encode_request(
            request, model=model, items=items, tools=tools, choice=choice, flags=flags
        )

    def decoder(self, *, summarise: bool, logprobs: bool) -> ChatDecoder:
        return ChatDecoder(summarise=summarise, logprobs=logprobs)

    def http_error(self, status: int, body: bytes, retry_after: str | None) -> ApiError:
        return http_error(status, body, retry_after)
