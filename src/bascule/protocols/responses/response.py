"""The response object: all fields in every place where it is shown."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from bascule.protocols import json

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
TERMINAL: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})


# Of the response object, as openai-python has it: those that the gateway says of its own response.
MEMBERS: Final = frozenset(
    {
        *("id", "object", "created_at", "completed_at", "status", "background", "error"),
        *("incomplete_details", "instructions", "max_output_tokens", "max_tool_calls", "metadata"),
        *("model", "output", "parallel_tool_calls", "previous_response_id", "conversation"),
        *("prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier"),
        *("service_tier", "store", "temperature", "text", "tool_choice", "tools", "top_logprobs"),
        *("top_p", "truncation", "frequency_penalty", "presence_penalty", "usage", "user"),
        *("output_text", "type", "sequence_number"),
    }
)


class Usage(msgspec.Struct, kw_only=True):
    """Tokens, summed over the rounds of a response."""

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    total_tokens: int = 0

    def add(self, other: "Usage") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def encode(self) -> bytes:
        return (
            b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
            b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
            % (
                self.input_tokens,
                self.cached_tokens,
                self.cache_write_tokens,
                self.output_tokens,
                self.reasoning_tokens,
                self.total_tokens,
            )
        )


class ResponseError(msgspec.Struct):
    """`error` of a failed response."""

    code: str
    message: str


_CHANGING: Final = (
    *("status", "completed_at", "error", "incomplete_reason", "output", "usage", "extra"),
)


class Snapshot:
    """The response at one moment: what changes, and the fields that never do (`constant`).

    `constant` is the JSON members from `instructions` to `metadata`, without braces.
    """

    __slots__ = (
        "completed_at",
        "constant",
        "created_at",
        "error",
        "extra",
        "id",
        "incomplete_reason",
        "output",
        "service_tier",
        "status",
        "usage",
    )

    def __init__(self, id_: str, created_at: int, constant: bytes) -> None:
        self.id = id_
        self.created_at = created_at
        self.constant = constant
        self.status: ResponseStatus = "in_progress"
        self.completed_at: int | None = None
        self.error: ResponseError | None = None
        self.incomplete_reason: str | None = None
        self.output: Sequence[bytes] = ()
        """The items that are done, each as its JSON object."""
        self.usage: Usage | None = None
        self.extra: dict[str, msgspec.Raw] = {}
        """Further members, of the model's server."""
        self.service_tier = "default"
        """The tier that the model's server says it used."""

    def copy(self) -> "Snapshot":
        other = Snapshot(self.id, self.created_at, self.constant)
        for name in _CHANGING:
            setattr(other, name, getattr(self, name))
        other.service_tier = self.service_tier
        return other

    def encode(self) -> bytes:
        """The JSON object."""
        reason = self.incomplete_reason
        return b"".join(
            (
                b'{"id":"%b","object":"response","created_at":%d,"status":"%b","completed_at":%b,'
                b'"error":%b,"incomplete_details":%b,"output":['
                % (
                    self.id.encode(),
                    self.created_at,
                    self.status.encode(),
                    b"null" if self.completed_at is None else b"%d" % self.completed_at,
                    json.encode(self.error),
                    b"null" if reason is None else b'{"reason":"%b"}' % reason.encode(),
                ),
                b",".join(self.output),
                b'],"usage":',
                b"null" if self.usage is None else self.usage.encode(),
                b',"service_tier":',
                json.encode(self.service_tier),
                b",",
                self.constant,
                b"," + json.encode(self.extra)[1:] if self.extra else b"}",
            )
        )


def with_output(snapshot: bytes, output: Sequence[bytes]) -> bytes:
    """A stored snapshot, whose output is empty, with its items."""
    head, found, tail = snapshot.partition(b'"output":[]')
    if not found:
        raise ValueError("the snapshot has no empty output")
    return b"".join((head, b'"output":[', b",".join(output), b"]", tail))
