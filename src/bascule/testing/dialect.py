"""How particular model servers word their chunks, as constants."""

import hashlib
from typing import Literal, TypeAlias

import msgspec

from bascule.testing.steps import Json, Layout, Usage

IdStyle: TypeAlias = Literal[
    "openai", "llama-server", "vllm", "kimi", "mistral", "numbered", "none"
]


class Dialect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The constant habits of a server.

    `opening` is the first delta (None: there is none). `every` is put into each delta that lacks the
    key (`{"tool_calls": None}`, `{"role": "assistant"}`), and into the whole message. `chunk` is put at
    the top of each chunk and of the whole answer. `nulls` writes `logprobs` and `finish_reason` into
    chunks that have none. `finish_with_calls` is the reason given when there are calls and no step
    says otherwise.
    """

    name: str = "plain"
    opening: Json | None = msgspec.field(
        default_factory=lambda: {"role": "assistant", "content": ""}
    )
    every: Json = {}
    chunk: Json = {}
    nulls: bool = True
    ids: IdStyle = "openai"
    layout: Layout = "name_first"
    finish_with_calls: str = "tool_calls"
    integer_codes: bool = False
    usage: Usage = Usage()


PLAIN = Dialect()
OPENAI = Dialect(
    name="openai",
    opening={"role": "assistant", "content": "", "refusal": None},
    chunk={"service_tier": "default", "system_fingerprint": "fp_0123456789"},
    usage=Usage(cached=0, reasoning=0),
)
LLAMA_SERVER = Dialect(
    name="llama-server",
    opening={"role": "assistant", "content": None},
    chunk={"system_fingerprint": "b11434-0000000"},
    ids="llama-server",
    layout="joined",
    integer_codes=True,
)
VLLM = Dialect(name="vllm", ids="vllm", layout="name_alone", integer_codes=True)
SGLANG = Dialect(
    name="sglang",
    every={"tool_calls": None, "reasoning_content": None},
    layout="name_first",
    integer_codes=True,
)
OLLAMA = Dialect(
    name="ollama",
    opening=None,
    every={"role": "assistant", "content": ""},
    chunk={"system_fingerprint": "fp_ollama"},
    layout="joined",
)
OPENROUTER = Dialect(
    name="openrouter",
    opening=None,
    every={"role": "assistant", "content": ""},
    chunk={"provider": "Mock"},
    integer_codes=True,
    usage=Usage(cached=0, reasoning=0, place="last", extra={"cost": 0.0}),
)
DEEPSEEK = Dialect(
    name="deepseek",
    opening={"role": "assistant", "content": None, "reasoning_content": ""},
    chunk={"system_fingerprint": "fp_mock"},
    usage=Usage(
        cached=0, place="last", extra={"prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 12}
    ),
)
KIMI = Dialect(name="kimi", ids="kimi", usage=Usage(place="last", extra={"cached_tokens": 8}))
MISTRAL = Dialect(name="mistral", ids="mistral", layout="joined", usage=Usage(place="last"))
XAI = Dialect(name="xai", opening=None, layout="joined", nulls=False, usage=Usage(reasoning=0))

DIALECTS = {
    dialect.name: dialect
    for dialect in (
        PLAIN, OPENAI, LLAMA_SERVER, VLLM, SGLANG, OLLAMA, OPENROUTER, DEEPSEEK, KIMI, MISTRAL, XAI,
    )
}  # fmt: skip


def call_id(style: IdStyle, request: int, index: int, name: str) -> str | None:
    """The id of a call: the same for the same place in a script, different for any other."""
    digest = hashlib.sha256(f"{request}/{index}".encode()).hexdigest()
    match style:
        case "openai":
            return f"call_{digest[:24]}"
        case "llama-server":
            return digest[:32]
        case "vllm":
            return f"chatcmpl-tool-{digest[:32]}"
        case "kimi":
            return f"functions.{name}:{index}"
        case "mistral":
            return digest[:9]
        case "numbered":
            return str(index)
        case "none":
            return None
