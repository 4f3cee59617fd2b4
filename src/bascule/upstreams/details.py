"""What model servers tell of a model besides its name: how much it reads and writes, and what.

Each kind of server tells it in its own place. Sources: vLLM and SGLang, `max_model_len` in the list of
models; llama.cpp, `meta` there and GET /props; LM Studio, GET /api/v0/models; Ollama, POST /api/show.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec

from bascule.protocols.json import as_object
from bascule.upstreams.client import (
    Headers,
    Timeouts,
    UpstreamClient,
    UpstreamFailure,
    UpstreamRequest,
)
from bascule.upstreams.fetch import fetch

_TIMEOUTS: Final = Timeouts(connect=2, first_byte=5, idle=5)
_MAX_BYTES: Final = 8 * 1024 * 1024


class ModelDetails(msgspec.Struct, frozen=True, kw_only=True):
    """None where nobody says."""

    context_length: int | None = None
    """Tokens of prompt and answer together."""
    max_output_tokens: int | None = None
    input: tuple[str, ...] | None = None
    """`text`, `image`."""

    def over(self, other: "ModelDetails") -> "ModelDetails":
        """These, and the other's where these say nothing."""
        return ModelDetails(
            context_length=self.context_length or other.context_length,
            max_output_tokens=self.max_output_tokens or other.max_output_tokens,
            input=self.input or other.input,
        )


UNKNOWN: Final = ModelDetails()


class Server:
    """Where to ask, and in whose name."""

    def __init__(self, base_url: str, headers: Headers, client: UpstreamClient) -> None:
        self.base_url = base_url
        self.origin = base_url.removesuffix("/v1")
        self.headers = headers
        self.client = client

    async def ask(self, url: str, body: Any = None) -> dict[str, Any] | None:
        """A JSON object; None if there is none to be had."""
        request = UpstreamRequest(
            url=url,
            method="GET" if body is None else "POST",
            headers=self.headers,
            body=b"" if body is None else msgspec.json.encode(body),
            timeouts=_TIMEOUTS,
        )
        try:
            answer = await fetch(self.client, request, max_bytes=_MAX_BYTES)
            return as_object(msgspec.json.decode(answer.body)) if answer.status == 200 else None
        except (UpstreamFailure, msgspec.DecodeError):
            return None


Asking = Callable[[Server, str], Awaitable[ModelDetails]]


def listed(entry: dict[str, Any]) -> ModelDetails:
    """What an entry in the list of models says of itself."""
    meta = _object(entry.get("meta"))
    architecture = _object(entry.get("architecture"))
    lengths = (
        entry.get("max_model_len"),
        meta.get("n_ctx"),
        entry.get("context_length"),
        entry.get("context_window"),
        meta.get("n_ctx_train"),
    )
    return ModelDetails(
        context_length=_first(*lengths),
        max_output_tokens=_first(
            entry.get("max_output_tokens"), entry.get("max_completion_tokens")
        ),
        input=_modalities(architecture.get("input_modalities") or entry.get("input_modalities")),
    )


async def _ask_llama_cpp(server: Server, model: str) -> ModelDetails:
    # Without a model's name: with one, a server of many models would load that one.
    props = await server.ask(f"{server.origin}/props") or {}
    settings = _object(props.get("default_generation_settings"))
    modalities = props.get("modalities")
    return ModelDetails(
        context_length=_first(settings.get("n_ctx")),
        input=_vision(_object(modalities).get("vision")) if modalities else None,
    )


async def _ask_lmstudio(server: Server, model: str) -> ModelDetails:
    answer = await server.ask(f"{server.origin}/api/v0/models") or {}
    entries: Any = answer.get("data")
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        entry = _object(entry)
        if entry.get("id") == model:
            return ModelDetails(
                context_length=_first(
                    entry.get("loaded_context_length"), entry.get("max_context_length")
                ),
                input=_vision(entry.get("type") == "vlm") if entry.get("type") else None,
            )
    return UNKNOWN


_NUM_CTX: Final = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)


async def _ask_ollama(server: Server, model: str) -> ModelDetails:
    shown = await server.ask(f"{server.origin}/api/show", {"model": model}) or {}
    info = _object(shown.get("model_info"))
    trained = info.get(f"{info.get('general.architecture')}.context_length")
    chosen = _NUM_CTX.search(str(shown.get("parameters") or ""))
    abilities: Any = shown.get("capabilities")
    return ModelDetails(
        context_length=int(chosen[1]) if chosen else _first(await _loaded(server, model), trained),
        input=_vision("vision" in abilities) if isinstance(abilities, list) else None,
    )


async def _loaded(server: Server, model: str) -> object:
    """What Ollama gave the model when it loaded it, often far less than the model could take."""
    running: Any = (await server.ask(f"{server.origin}/api/ps") or {}).get("models")
    for entry in cast("list[Any]", running) if isinstance(running, list) else []:
        entry = _object(entry)
        if model in (entry.get("name"), entry.get("model")):
            return entry.get("context_length")
    return None


ASKING: Final[dict[str, Asking]] = {
    "llama_cpp": _ask_llama_cpp,
    "lmstudio": _ask_lmstudio,
    "ollama": _ask_ollama,
}
"""How a kind of server is asked for what its list of models does not tell, by profile."""

TELLING: Final = frozenset({*ASKING, "vllm", "sglang", "custom"})
"""Kinds that tell something, be it in the list."""


def _object(value: Any) -> dict[str, Any]:
    return as_object(value) or {}


def _first(*values: object) -> int | None:
    """The first that is a number of tokens."""
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _vision(value: object) -> tuple[str, ...]:
    return ("text", "image") if value is True else ("text",)


def _modalities(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    known = tuple(m for m in ("text", "image") if m in value)
    return known or None
