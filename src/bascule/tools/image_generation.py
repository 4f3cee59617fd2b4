"""`image_generation`: an image that was made from the model's words."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Raw

from bascule.protocols import json
from bascule.protocols.responses.items import Flat, Item, Part
from bascule.toolkit.names import Ledger
from bascule.tools.hosted import HostedHandler, with_defaults
from bascule.tools.items_only import call_id_of, failed, given, pair, texts, wire_name
from bascule.tools.options import declared


class Mask(msgspec.Struct):
    """`image_url` is a data URL."""

    file_id: str | None = None
    image_url: str | None = None


class SvgReasoning(msgspec.Struct):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None


class Svg(msgspec.Struct):
    model: str | None = None
    reasoning: SvgReasoning | None = None


_Positive = Annotated[int, Meta(ge=1)]


class ImageGenerationParams(msgspec.Struct):
    """Source: openai-python's types."""

    action: Literal["generate", "edit", "auto"] | None = None
    background: Literal["transparent", "opaque", "auto"] | None = None
    complexity: Literal["low", "medium", "high"] | None = None
    frame_count: _Positive | None = None
    frame_duration_ms: _Positive | None = None
    input_fidelity: Literal["high", "low"] | None = None
    input_image_mask: Mask | None = None
    model: str | None = None
    moderation: Literal["auto", "low"] | None = None
    n: _Positive | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"] | None = None
    partial_images: Annotated[int, Meta(ge=0, le=3)] | None = None
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"] | None = None
    size: str | None = None
    svg: Svg | None = None


_decode = json.decoder(ImageGenerationParams)


class ImageGenerationCall(msgspec.Struct):
    """View of an `image_generation_call`. `result` is base64."""

    status: str | None = None
    result: str | None = None
    revised_prompt: str | None = None
    output_format: str | None = None
    size: str | None = None
    error: Any = None


class ImageGenerationHandler(HostedHandler[ImageGenerationParams]):
    kind: ClassVar[str] = "image_generation"
    types: ClassVar[frozenset[str]] = frozenset({"image_generation"})
    item_types: ClassVar[frozenset[str]] = frozenset({"image_generation_call"})

    def parse(self, declaration: Raw, param: str) -> ImageGenerationParams:
        return declared(_decode, declaration, param)

    def echo(self, declaration: Raw, params: ImageGenerationParams) -> Raw:
        """With its defaults, as recorded at OpenAI."""
        return with_defaults(
            declaration,
            background="auto",
            moderation="auto",
            n=1,
            output_compression=100,
            output_format="png",
            quality="auto",
            size="auto",
        )

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
