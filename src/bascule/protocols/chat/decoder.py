"""Chat Completions answers, streamed or whole, as canonical events."""

import json as stdlib_json
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from bascule.protocols import json
from bascule.protocols.chat.logprobs import token_logprob
from bascule.protocols.errors import ApiError
from bascule.protocols.responses.builder import ItemBuilder
from bascule.protocols.responses.events import RoundEnd, RoundEvent, RoundFailed
from bascule.protocols.responses.response import Usage
from bascule.protocols.sse import SseReader, SseTooLong
from bascule.protocols.upstream_errors import in_stream_error, is_flat_error


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    annotations: list[dict[str, Any]] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    logprobs: Any = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    cached_tokens: int | None = None
    num_cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    service_tier: Any = None
    error: Any = None


_decode = json.decoder(_Chunk)

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


_FAULTS: Final = (ApiError, SseTooLong, RecursionError)


class ChatDecoder:
    """One answer: `feed` its bytes and `end` it, or give it `whole`.

    Each returns a batch of events; the last event of an answer is RoundEnd or RoundFailed, after
    which everything is ignored.
    """

    def __init__(self, *, summarise: bool = False, logprobs: bool = False) -> None:
        """`logprobs` shows those of the text, for clients that asked for them."""
        self._sse = SseReader()
        self._build = ItemBuilder(summarise=summarise)
        self._logprobs = logprobs
        self._usage: _Usage | None = None
        self._tier: str | None = None
        self._finish: str | None = None
        self._marked = False
        self._over = False
        self._bare_calls = 0
        self._moved: dict[int, object] = {}

    def feed(self, data: bytes) -> list[RoundEvent]:
        """Bytes of a stream, cut anywhere."""
        build = self._build
        if not self._over:
            try:
                for name, payload in self._sse.feed(data):
                    if payload == b"[DONE]":
                        self._finished()
                        break
                    self._chunk(name, payload)
            except _FAULTS as e:
                self._failed(e)
        out = build.out
        build.out = []
        return out

    def end(self) -> list[RoundEvent]:
        """The stream has ended. Without a terminal mark that is a failure."""
        return self._guarded(self._read_end)

    def whole(self, body: bytes) -> list[RoundEvent]:
        """An answer that came as one JSON body."""
        return self._guarded(self._read_whole, body)

    def _guarded(self, step: Callable[..., None], *args: bytes) -> list[RoundEvent]:
        build = self._build
        if not self._over:
            try:
                step(*args)
            except _FAULTS as e:
                self._failed(e)
        out = build.out
        build.out = []
        return out

    def _failed(self, fault: Exception) -> None:
        if isinstance(fault, SseTooLong):
            fault = _broken(f"sent {fault}")
        elif isinstance(fault, RecursionError):
            fault = _broken("nested its answer too deeply")
        self._over = True
        self._build.close(cut=True)
        self._build.out.append(RoundFailed(fault))

    def _read_end(self) -> None:
        for name, payload in self._sse.finish():
            if payload == b"[DONE]":
                self._finished()
                return
            self._chunk(name, payload)
        if not self._marked:
            raise _broken("closed the stream before its answer was complete")
        self._finished()

    def _read_whole(self, body: bytes) -> None:
        self._chunk(b"", body)
        if not self._marked and self._finish is None:
            raise _broken("answered without a choice")
        self._finished()

    def _finished(self) -> None:
        self._over = True
        reason = _INCOMPLETE.get(self._finish or "")
        self._build.close(cut=reason is not None)
        self._build.out.append(RoundEnd(_usage(self._usage), reason, service_tier=self._tier))

    def _chunk(self, name: bytes, payload: bytes) -> None:
        try:
            chunk = _decode(payload)
        except (msgspec.DecodeError, RecursionError):
            chunk = _lenient(name, payload)
        if chunk.error is not None or name == b"error":
            raise in_stream_error(chunk.error, payload)
        if chunk.choices is None and chunk.usage is None and is_flat_error(payload):
            raise in_stream_error(None, payload)
        if chunk.usage is not None:
            self._usage = chunk.usage
        if self._tier is None and chunk.service_tier and isinstance(chunk.service_tier, str):
            self._tier = chunk.service_tier
        for choice in chunk.choices or ():
            if choice.index:
                continue  # n is never asked for; another choice has no place in one response
            delta = choice.delta
            if delta is not None:
                self._delta(delta, choice.logprobs)
            elif choice.message is not None:
                self._message(choice.message, choice.logprobs)
            if choice.finish_reason:
                self._finish = self._finish or choice.finish_reason
                self._marked = True
                if choice.finish_reason == "error":
                    raise _broken("ended its answer with finish_reason 'error'")

    def _message(self, message: _Delta, logprobs: Any) -> None:
        # Nothing is a fragment here: each entry is a call, whatever index or id it bears.
        for place, call in enumerate(message.tool_calls or ()):
            call.index = place
        self._delta(message, logprobs)
        self._marked = True

    def _delta(self, delta: _Delta, logprobs: Any) -> None:
        build = self._build
        if logprobs is not None and self._logprobs:
            self._note_logprobs(delta, logprobs)
        thought = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        if thought or delta.reasoning_details:
            self._thought(thought, delta.reasoning_details)
        content = delta.content
        if content:
            if isinstance(content, str):
                build.text(content)
            else:
                self._parts(content)
        if delta.tool_calls or delta.refusal or delta.annotations or delta.function_call:
            self._rest(delta)

    def _note_logprobs(self, delta: _Delta, logprobs: Any) -> None:
        """Those of the text: a chunk of reasoning or of a call may have some of its own."""
        silent = not delta.content
        if silent and (delta.tool_calls or delta.reasoning_content or delta.reasoning):
            return
        tokens = (json.as_object(logprobs) or {}).get("content")
        if isinstance(tokens, list) and tokens:
            self._build.logprobs(list(map(token_logprob, cast("list[Any]", tokens))))

    def _thought(self, text: str | None, details: list[dict[str, Any]] | None) -> None:
        if details:
            self._build.reasoning_details(details)
            text = text or _details_text(details)
        if text:
            self._build.reasoning(text)

    def _rest(self, delta: _Delta) -> None:
        build = self._build
        if delta.refusal:
            build.refusal(delta.refusal)
        for annotation in delta.annotations or ():
            build.annotation(_annotation(annotation))
        for call in delta.tool_calls or ():
            self._call(call)
        if delta.function_call is not None and delta.function_call.name:
            self._call(_Call(None, None, delta.function_call))

    def _parts(self, parts: list[dict[str, Any]]) -> None:
        for part in parts:
            if part.get("type") == "thinking":
                if thought := _nested_text(part.get("thinking")):
                    self._build.reasoning(thought)
            elif (text := part.get("text")) and isinstance(text, str):
                self._build.text(text)

    def _call(self, call: _Call) -> None:
        function = call.function or _Function()
        name, id_ = function.name or "", call.id or ""
        arguments = function.arguments
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.encode(arguments).decode()
        key = self._key(call.index, id_, name, arguments)
        self._build.call(key, id_, name, arguments)

    def _key(self, index: int | None, id_: str, name: str, arguments: str) -> object:
        """Which call a fragment belongs to: the index says so, where the server gives a true one."""
        build = self._build
        if index is None:
            known = build.call_id(("bare", self._bare_calls))
            if name and not (id_ and id_ == known):
                self._bare_calls += 1
            return ("bare", self._bare_calls)
        key = self._moved.get(index, index)
        known = build.call_id(key)
        if name and id_ and known and id_ != known and build.is_named(key):
            # Servers that number every parallel call 0 tell them apart by id.
            key = self._moved[index] = (index, id_)
        elif name and arguments and not id_ and build.is_whole(key):
            # Or by nothing but a name, after a call whose arguments are complete.
            self._bare_calls += 1
            key = self._moved[index] = (index, self._bare_calls)
        return key


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return None
    prompt = usage.prompt_tokens_details or _PromptDetails()
    completion = usage.completion_tokens_details or _CompletionDetails()
    read, written = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = next(
        filter(
            None,
            (
                prompt.cached_tokens,
                usage.cached_tokens,
                usage.num_cached_tokens,
                usage.prompt_cache_hit_tokens,
            ),
        ),
        0,
    )
    return Usage(
        input_tokens=read,
        cached_tokens=cached,
        cache_write_tokens=prompt.cache_write_tokens or 0,
        output_tokens=written,
        reasoning_tokens=completion.reasoning_tokens or 0,
        total_tokens=usage.total_tokens if usage.total_tokens is not None else read + written,
    )


def _lenient(name: bytes, payload: bytes) -> _Chunk:
    """A chunk that is no strict JSON: nothing, half of a surrogate pair, bytes that are no UTF-8.
    Counters of an unknown form are not worth an answer either."""
    if not payload.strip():
        return _Chunk()
    try:
        loose = stdlib_json.loads(payload.decode(errors="replace"))
        text = stdlib_json.dumps(loose, ensure_ascii=False).encode("utf-8", "replace")
        try:
            return _decode(text)
        except msgspec.ValidationError:
            return _decode(json.merge(text, usage=None))
    except (ValueError, RecursionError, msgspec.DecodeError):
        if name == b"error":
            return _Chunk()
        raise _broken("sent a chunk that is not valid JSON") from None


def _broken(what: str) -> ApiError:
    return ApiError(502, f"The model server {what}.", code="server_error")


def _details_text(details: list[dict[str, Any]]) -> str:
    return "".join(
        text
        for detail in details
        for key in ("text", "summary")
        if isinstance(text := detail.get(key), str)
    )


def _nested_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    texts = [(json.as_object(part) or {}).get("text") for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def _annotation(annotation: dict[str, Any]) -> dict[str, Any]:
    """Chat nests what Responses has flat."""
    kind = annotation.get("type")
    nested = json.as_object(annotation.get(str(kind)))
    flat = dict(annotation) if nested is None else {"type": kind, **nested}
    if kind == "url_citation":
        for key, default in (("start_index", 0), ("end_index", 0), ("url", ""), ("title", "")):
            flat.setdefault(key, default)
    return flat
