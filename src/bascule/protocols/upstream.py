"""What the engine needs of a protocol in which it is the client."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from bascule.protocols.errors import ApiError
from bascule.protocols.flags import Flags
from bascule.protocols.function import Offered, WireChoice
from bascule.protocols.responses.events import RoundEvent
from bascule.protocols.responses.items import Flat
from bascule.protocols.responses.request import TurnRequest

FAMILY: Final = frozenset({"namespace", "tool_search", "programmatic_tool_calling"})
"""Types of declarations that a server knows together, or not at all."""
FAMILY_ITEMS: Final = frozenset(
    {"additional_tools", "tool_search_call", "tool_search_output", "program", "program_output"}
)
"""Items that only such a server knows."""


class ModelSurface(msgspec.Struct, frozen=True):
    """What a server takes as the client said it, beside functions. By default nothing."""

    items: bool = False
    """It speaks Responses: items go as they are, and so do tools of types that nobody here knows."""
    hosted: frozenset[str] | Literal["all"] = frozenset()
    """Types of tools that it runs by itself."""
    custom: bool = False
    """It knows custom tools."""
    family: bool = False
    """It knows namespaces, tool search, programs and their items."""
    name_limit: int = 64
    """Characters that a function's name may have."""

    def takes(self, type_: str, *, known: bool, ours: bool = False) -> bool:
        """Whether a declaration of this type goes as it is; `known` says that it could be served
        here, `ours` that only a server which is said to run this very type does so."""
        if not self.items or type_ == "function":
            return False
        if type_ == "custom":
            return self.custom
        if type_ in FAMILY:
            return self.family
        if self.hosted == "all":
            return not (known and ours)
        return not known or type_ in self.hosted


CHAT_SURFACE: Final = ModelSurface()


class Encoded(Protocol):
    """A request body, and the JSON paths of fields that this server cannot be told of."""

    @property
    def body(self) -> bytes: ...

    @property
    def ignored(self) -> list[str]: ...


class Decoder(Protocol):
    """One answer: `feed` its bytes and `end` it, or give it `whole`. The last event is RoundEnd or
    RoundFailed."""

    def feed(self, data: bytes) -> list[RoundEvent]: ...

    def end(self) -> list[RoundEvent]: ...

    def whole(self, body: bytes) -> list[RoundEvent]: ...


class UpstreamProtocol(Protocol):
    """Pure functions between canonical turns and a server's bytes."""

    name: str
    """As the configuration has it."""
    path: str
    """Below the upstream's base URL."""

    def surface(self, flags: Flags) -> ModelSurface: ...

    def encode_tools(self, tools: Sequence[Offered], flags: Flags) -> bytes: ...

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
        """`constraint` are members for the server itself, as bascule.protocols.grammar makes them. Raises
        ApiError 400 for what the server cannot be given."""
        ...

    def decoder(self, *, summarise: bool, logprobs: bool) -> Decoder:
        """`summarise` shows reasoning as a summary, `logprobs` those of the text."""
        ...

    def http_error(self, status: int, body: bytes, retry_after: str | None) -> ApiError: ...
