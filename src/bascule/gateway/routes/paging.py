"""What lists are asked for by: `after`, `limit`, `order` and `include`."""

from typing import Final

import msgspec
from starlette.requests import Request

from bascule.protocols.errors import ApiError, invalid
from bascule.protocols.responses.include import check_includes

DEFAULT_LIMIT: Final = 20
_MAX_LIMIT: Final = 100


class Paging(msgspec.Struct, frozen=True):
    """One page. `after` is a public item id."""

    after: str | None
    limit: int
    descending: bool
    include: frozenset[str]


def read_paging(request: Request) -> Paging:
    """Raises ApiError 400 that names the parameter."""
    query = request.query_params
    return Paging(
        after=query.get("after") or None,
        limit=_limit(query.get("limit")),
        descending=_descending(query.get("order")),
        include=read_include(request),
    )


def read_include(request: Request) -> frozenset[str]:
    """The values of `include`, by either of the names that clients use."""
    query = request.query_params
    return check_includes([*query.getlist("include"), *query.getlist("include[]")])


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    try:
        value = int(text)
    except ValueError:
        raise invalid(
            "Invalid type for 'limit': expected an integer.", "limit", "invalid_type"
        ) from None
    if value < 1:
        raise invalid(
            f"Invalid 'limit': {value} is below the minimum of 1.",
            "limit",
            "integer_below_min_value",
        )
    if value > _MAX_LIMIT:
        raise invalid(
            f"Invalid 'limit': {value} is above the maximum of {_MAX_LIMIT}.",
            "limit",
            "integer_above_max_value",
        )
    return value


def _descending(text: str | None) -> bool:
    if text not in (None, "asc", "desc"):
        raise invalid(
            f"Invalid value: '{text}'. Supported values are: 'asc' and 'desc'.",
            "order",
            "invalid_value",
        )
    return text != "asc"


def unknown_cursor(after: str | None) -> ApiError:
    """An `after` that is not in the list. Source: a recording of conversations."""
    return ApiError(
        404,
        f"No item found with id '{after}'",
        param="after",
        type="invalid_request_error",
    )
