"""The steps of which a scripted reply is made.

Content steps say what the model writes; each is rendered as chunks of a stream and, for a request
without `stream`, as its part of the whole message. Flow and wire steps say how the answer travels;
in a whole answer those that have a meaning there keep it (waits, cuts, errors), the others vanish.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

Json: TypeAlias = dict[str, Any]

Fragments: TypeAlias = str | list[str]
"""A text to be split, or the very pieces."""

Split: TypeAlias = int | Literal["words"]
"""How many pieces of about equal length, or one per word (its space in front)."""


# --- content


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Visible text. `logprobs` puts one token per chunk into the choice's `logprobs`."""

    content: Fragments
    chunks: Split = 1
    logprobs: bool = False


class Reasoning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reasoning text under `field` (`both`: `reasoning` and `reasoning_content` with equal text).

    `details` are entries of `reasoning_details`, each in a chunk of its own after the text.
    """

    content: Fragments = ""
    chunks: Split = 1
    field: Literal["reasoning_content", "reasoning", "reasoning_text", "both"] = "reasoning_content"
    details: list[Json] = []


class Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    content: Fragments
    chunks: Split = 1


Layout: TypeAlias = Literal[
    "joined",  # name and first fragment in one chunk (llama-server); whole when `split` is 1
    "name_first",  # the name with `arguments: ""`, then the fragments (OpenAI)
    "name_alone",  # the name without an `arguments` key, then the fragments (vLLM)
    "name_last",  # the fragments first, then id and name
]


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. Arguments as an object are rendered as compact JSON; as text they stay as they are.

    A list of names fragments the name, a list of arguments is the fragments. `layout` None means the
    dialect's. `later_name` and `later_id` say what the chunks after the first carry under those keys.
    `omit` leaves keys out, in the whole message too where it has them. `id` None mints one.
    """

    name: Fragments
    arguments: Json | Fragments = {}
    id: str | None = None
    split: Split = 1
    layout: Layout | None = None
    later_name: Literal["absent", "repeated", "empty", "null"] = "absent"
    later_id: Literal["absent", "repeated", "empty", "null"] = "absent"
    omit: list[Literal["id", "index", "type"]] = []


class Delta(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Any fields of a delta, verbatim. `message` is what the whole message gets instead of them."""

    fields: Json
    message: Json | UnsetType = UNSET


class Interleave(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The chunks of several content steps by turns: two calls at once, text between fragments."""

    steps: list["Content"]


class Together(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The n-th chunks of several content steps merged into one: text and a call in one delta."""

    steps: list["Content"]


# --- the end


class Finish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The choice's `finish_reason`. `alone` False puts it into the last content chunk."""

    reason: str | None = "stop"
    alone: bool = True
    extra: Json = {}


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Token counts. `place` is a chunk of its own with empty choices, or the chunk of the finish.

    `cached` and `reasoning` become the details objects; `extra` goes in at the top (`cached_tokens` of
    Kimi, `prompt_cache_hit_tokens` of DeepSeek) and may overwrite anything. A total that is not given
    is the sum. Written out as a step it is sent whether or not the request asked for it.
    """

    prompt: int | None = 12
    completion: int | None = 7
    total: int | UnsetType | None = UNSET
    cached: int | None = None
    reasoning: int | None = None
    extra: Json = {}
    place: Literal["own", "last"] = "own"


class StreamError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error inside the 200 stream, which ends there without finish or `[DONE]`.

    For a request without `stream` it is the HTTP error of that code, as with llama-server. `event` adds
    the SSE field of that name. `error` replaces the whole object.
    """

    message: str = "Failed to parse input at pos 0"
    code: int | str | None = 500
    type: str | None = "server_error"
    event: str | None = None
    error: Json | UnsetType = UNSET


class Eof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body ends here, in a well-formed way: no finish, no usage, no `[DONE]` by themselves."""


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The connection closes here (`reset`: with a TCP reset), in the middle of the body.

    `mid_chunk` announces a longer HTTP chunk first, so that the framing is cut as well. A whole answer
    is cut after half of its body.
    """

    reset: bool = False
    mid_chunk: bool = False


class Stall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing more comes; the connection stays open until the client or the server closes it."""


# --- waiting


class Delay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seconds: float


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Waits until the test calls `server.open(name)`; a gate opened once stays open."""

    name: str


# --- raw wire


class Chunk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole chunk object, verbatim."""

    fields: Json


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An SSE event with this data, whatever it is; each line of it becomes a `data:` line."""

    content: str
    event: str | None = None


class Comment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    content: str = " OPENROUTER PROCESSING"


class HalfLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `data:` line that breaks off. Follow it with `Cut` or `Eof`."""

    content: str = '{"id":"chatcmpl-0","object":"chat.completion.chunk","choices":[{"index":0,"del'


class BadJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data line (a whole body, without `stream`) that is not JSON."""

    content: str = '{"id":"chatcmpl-0","choices":[{"index":0,"delta":{"content":"x"}'


class Flood(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many bytes of one letter, without a newline, after `data: `."""

    size: int
    letter: str = "x"


class Raw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body bytes, verbatim (within the HTTP framing)."""

    data: bytes


Content: TypeAlias = Text | Reasoning | Refusal | Call | Delta | Interleave | Together
Flow: TypeAlias = Delay | Gate | Stall | Cut | Eof
Wired: TypeAlias = Chunk | Data | Comment | HalfLine | BadJson | Flood | Raw
Step: TypeAlias = Content | Flow | Wired | Finish | Usage | StreamError

CONTENT = (Text, Reasoning, Refusal, Call, Delta, Interleave, Together)
ENDINGS = (StreamError, Eof, Cut, Stall)
