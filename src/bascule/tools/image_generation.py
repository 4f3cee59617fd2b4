"""`image_generation`: an image that was made from the model's words."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item, Part
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, declared
from bascule.tools.items_only import call_id_of, failed, given, pair, texts, wire_name


class ImageGenerationCall(msgspec.Struct):
    """View of an `image_generation_call`. `result` is base64."""

    status: str | None = None
    result: str | None = None
    revised_prompt: str | None = None
    output_format: str | None = None
    size: str | None = None
    error: Any = None


class ImageGenerationHandler(HostedHandler[None]):
    kind: ClassVar[str] = "image_generation"
    types: ClassVar[frozenset[str]] = frozenset({"image_generation"})
    item_types: ClassVar[frozenset[str]] = frozenset({"image_generation_call"})

    def parse(self, declaration: Raw, param: str) -> None:
        json.field(declared, declaration, param)

    def flatten(self, item: Item, names: Ledger, param: str) -> Sequence[Flat]:
        view = item.view(ImageGenerationCall, param)
        arguments = given(prompt=view.revised_prompt, size=view.size)
        wire = wire_name(names, "image_generation")
        return pair(call_id_of(item), wire, arguments, _output(view))


def _output(view: ImageGenerationCall) -> str | list[Part]:
    if view.error is not None:
        return f"The image was not made: {json.encode(view.error).decode()}"
    if view.result is None:
        return failed(view.status, "image") or "The image is not a part of this history."
    url = f"data:image/{view.output_format or 'png'};base64,{view.result}"
    return [*texts("The image was made:"), Part("input_image", image_url=url)]
