"""Content parts that a model can be given."""

from typing import Final

from bascule.protocols.errors import invalid
from bascule.protocols.responses.items import Part

TEXT_PARTS: Final = frozenset({"input_text", "output_text", "text"})


def check_part(part: Part, param: str) -> None:
    """Raises ApiError 400 for a part that cannot reach the model."""
    if part.type in TEXT_PARTS:
        missing = "text" if part.text is None else None
    elif part.type == "refusal":
        missing = "refusal" if part.refusal is None else None
    elif part.type == "input_image":
        if part.file_id is not None:
            place = f"{param}.file_id"
            raise invalid("Files by id are not supported here.", place, "unsupported_value")
        missing = "image_url" if part.image_url is None else None
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
