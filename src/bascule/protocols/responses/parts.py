"""Content parts that a model can be given."""

from typing import Final

from bascule.protocols import capabilities
from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.items import Part

TEXT_PARTS: Final = frozenset({"input_text", "output_text", "text"})
_DETAILS: Final = frozenset({"low", "high", "auto", "original"})


def check_part(part: Part, param: str) -> None:
    """Raises ApiError 400 for a part that cannot reach any model."""
    missing = None
    if part.type in TEXT_PARTS:
        missing = "text" if part.text is None else None
    elif part.type == "refusal":
        missing = "refusal" if part.refusal is None else None
    elif part.type in ("input_image", "computer_screenshot"):
        missing = _image(part, param)
    elif part.type == "input_file":
        missing = _file(part, param)
    elif part.type == "input_audio":
        missing = "input_audio" if part.input_audio is None else None
    else:
        raise invalid(
            f"Invalid value: '{part.type}'. Content parts of this type are not supported here.",
            f"{param}.type",
            "unsupported_value",
        )
    if missing:
        place = f"{param}.{missing}"
        raise invalid(
            f"Missing required parameter: '{place}'.", place, "missing_required_parameter"
        )


def _image(part: Part, param: str) -> str | None:
    if part.file_id is not None:
        raise _by_id("input_image.file_id", param)
    if part.detail is not None and part.detail not in _DETAILS:
        place = f"{param}.detail"
        known = ", ".join(sorted(_DETAILS))
        raise invalid(
            f"Invalid value for '{place}': '{part.detail}'. It must be one of {known}.",
            place,
            "invalid_value",
        )
    return "image_url" if part.image_url is None else None


def _file(part: Part, param: str) -> str | None:
    if part.file_id is not None:
        raise _by_id("input_file.file_id", param)
    if part.file_data is not None and part.file_url is not None:
        place = f"{param}.file_url"
        raise invalid("A file has either data or a URL, not both.", place, "invalid_value")
    return "file_data" if part.file_data is None and part.file_url is None else None


def _by_id(name: str, param: str) -> ApiError:
    row = capabilities.PARTS[name]
    return capabilities.refusal(row, f"{param}.file_id")
