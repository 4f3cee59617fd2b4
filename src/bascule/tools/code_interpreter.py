"""`code_interpreter`: Python that the model wrote, run in a container."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item, Part
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler
from bascule.tools.items_only import call_id_of, failed, given, pair, texts, wire_name
from bascule.tools.options import Callers, declared
from bascule.tools.shell_environment import MemoryLimit, NetworkPolicy, shown_environment


class NewContainer(msgspec.Struct, tag_field="type", tag="auto"):
    file_ids: Sequence[str] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkPolicy | None = None


class CodeInterpreterParams(msgspec.Struct):
    """`container` is the id of one, or how a new one is to be."""

    container: str | NewContainer
    allowed_callers: Callers = None


_decode = json.decoder(CodeInterpreterParams)


class Logs(msgspec.Struct, tag_field="type", tag="logs"):
    logs: str


class Image(msgspec.Struct, tag_field="type", tag="image"):
    url: str


class CodeInterpreterCall(msgspec.Struct):
    """View of a `code_interpreter_call`. `outputs` come with their `include` only."""

    code: str | None = None
    status: str | None = None
    outputs: list[Logs | Image] | None = None


class CodeInterpreterHandler(HostedHandler[CodeInterpreterParams]):
    kind: ClassVar[str] = "code_interpreter"
    types: ClassVar[frozenset[str]] = frozenset({"code_interpreter"})
    item_types: ClassVar[frozenset[str]] = frozenset({"code_interpreter_call"})

    def parse(self, declaration: Raw, param: str) -> CodeInterpreterParams:
        return declared(_decode, declaration, param)

    def masked(self, declaration: Raw) -> Raw:
        """Without the values of secrets."""
        return shown_environment(declaration, "container")

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        view = item.view(CodeInterpreterCall, param)
        wire = wire_name(names, "code_interpreter")
        return pair(call_id_of(item), wire, given(code=view.code), _output(view))


def _output(view: CodeInterpreterCall) -> str | list[Part]:
    fault = failed(view.status, "code")
    if view.outputs is None:
        return fault or "The code was run; what it printed is not a part of this history."
    parts = texts(*(out.logs for out in view.outputs if isinstance(out, Logs)), fault)
    parts += [
        Part("input_image", image_url=out.url) for out in view.outputs if isinstance(out, Image)
    ]
    return parts or "(no output)"
