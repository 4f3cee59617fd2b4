"""Script files: JSON (replies as data) or Python (a module that defines `script`)."""

import runpy
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from bascule.testing.answer import Answer, HttpAnswer, Part, Reply, Verbatim, Wire
from bascule.testing.dialect import DIALECTS, PLAIN, Dialect
from bascule.testing.replay import recorded
from bascule.testing.script import Script
from bascule.testing.server import ModelServer
from bascule.testing.step_data import ScriptError, convert, steps_from
from bascule.testing.steps import Json

__all__ = ["ScriptError", "ScriptFile", "load_script"]


class ScriptFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A script and the server's options that stand in the same file."""

    script: Any
    then: Literal["fail", "repeat"] = "fail"
    dialect: Dialect = PLAIN
    models: list[str] | None = None
    unknown_model: Literal["served", "refused"] = "served"
    health_failures: int = 0

    def server(self, host: str = "127.0.0.1", port: int = 0) -> ModelServer:
        """A server that plays the script; it is not started yet."""
        return ModelServer(
            cast("Script", self.script),
            then=self.then,
            dialect=self.dialect,
            models=self.models,
            unknown_model=self.unknown_model,
            health_failures=self.health_failures,
            host=host,
            port=port,
        )


def load_script(path: str | Path) -> ScriptFile:
    """Read a script file: Python if its name ends in `.py`, else JSON.

    Raises `ScriptError`, which names the file and the place in it.
    """
    path = Path(path)
    try:
        return _from_python(path) if path.suffix == ".py" else _from_json(path.read_bytes())
    except OSError as error:
        raise ScriptError(f"{path}: {error.strerror or error}") from error
    except ScriptError as error:
        raise ScriptError(f"{path}: {error}") from error


def _from_python(path: Path) -> ScriptFile:
    try:
        names = runpy.run_path(str(path))
    except OSError:
        raise
    except Exception as error:
        raise ScriptError(f"cannot be run: {error!r}") from error
    if "script" not in names:
        raise ScriptError("defines no `script`")
    options = {name: names[name] for name in ScriptFile.__struct_fields__ if name in names}
    if isinstance(options.get("dialect"), str):
        options["dialect"] = _dialect(options["dialect"], "dialect")
    _check_python(options["script"])
    return convert(options, ScriptFile, "")


def _check_python(script: object) -> None:
    if callable(script) or isinstance(script, Reply | HttpAnswer | Verbatim | str):
        return
    if not isinstance(script, list | tuple):
        raise ScriptError(f"script: a list of replies or a function, not {type(script).__name__}")
    for number, answer in enumerate(cast("list[object]", script)):
        if not isinstance(answer, Reply | HttpAnswer | Verbatim | str):
            raise ScriptError(f"script[{number}]: a reply, not {type(answer).__name__}")


def _from_json(data: bytes) -> ScriptFile:
    try:
        decoded: Any = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ScriptError(f"not JSON: {error}") from error
    if not isinstance(decoded, dict | list):
        raise ScriptError("a list of replies, or an object with `replies`")
    options: Json = {"replies": decoded} if isinstance(decoded, list) else cast("Json", decoded)
    replies = options.pop("replies", None)
    if not isinstance(replies, list):
        raise ScriptError("replies: a list is needed")
    if "script" in options:
        raise ScriptError("Object contains unknown field `script`")
    if isinstance(options.get("dialect"), str):
        options["dialect"] = _dialect(options["dialect"], "dialect")
    options["script"] = [
        _answer(reply, f"replies[{number}]")
        for number, reply in enumerate(cast("list[Any]", replies))
    ]
    return convert(options, ScriptFile, "")


class _ReplyData(msgspec.Struct, forbid_unknown_fields=True):
    steps: list[Any]
    omit: list[Part] = []
    wire: Wire = Wire()
    dialect: str | Json | None = None
    headers: dict[str, str] = {}
    model: str | None = None


class _HttpData(msgspec.Struct, forbid_unknown_fields=True):
    status: int = 200
    json: Any = msgspec.UNSET
    text: str = ""
    content_type: str | None = None
    headers: dict[str, str] = {}


def _answer(data: object, place: str) -> Answer:
    if isinstance(data, str):
        return Reply(data)
    if isinstance(data, list):
        return Reply(*steps_from(cast("list[object]", data), place))
    if not isinstance(data, dict):
        raise ScriptError(f"{place}: a reply is a string, a list of steps or an object")
    fields = cast("Json", data)
    if set(fields) == {"http"}:
        return _http(convert(fields["http"], _HttpData, f"{place}.http"))
    if set(fields) == {"recorded"}:
        return recorded(convert(fields["recorded"], Json, f"{place}.recorded"))
    reply = convert(fields, _ReplyData, place)
    return Reply(
        *steps_from(reply.steps, f"{place}.steps"),
        omit=reply.omit,
        wire=reply.wire,
        dialect=_dialect(reply.dialect, f"{place}.dialect") if reply.dialect else None,
        headers=reply.headers,
        model=reply.model,
    )


def _http(data: _HttpData) -> HttpAnswer:
    if data.json is msgspec.UNSET:
        kind = data.content_type or ("text/plain; charset=utf-8" if data.text else None)
        return HttpAnswer(data.status, data.text.encode(), kind, data.headers)
    kind = data.content_type or "application/json"
    return HttpAnswer(data.status, msgspec.json.encode(data.json), kind, data.headers)


def _dialect(data: str | Json, place: str) -> Dialect:
    if isinstance(data, dict):
        return convert(data, Dialect, place)
    if data not in DIALECTS:
        raise ScriptError(f"{place}: no dialect {data!r}; there are {', '.join(DIALECTS)}")
    return DIALECTS[data]
