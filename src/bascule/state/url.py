"""Database URLs, read and shown without what is secret in them."""

import re
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

DEFAULT_TIMEOUT: Final = 5.0


def parse(url: str) -> URL:
    """Raises ValueError for what is no URL of a database."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        # Without the cause: its text may hold the password, wherever that is in the URL.
        scheme = re.match(r"[\w+.-]{1,40}:", url)
        raise ValueError(f"not a database URL{f': {scheme[0]}...' if scheme else ''}") from None


def is_postgres(url: str) -> bool:
    """Whether the URL is one of PostgreSQL's; any driver's."""
    return bool(re.match(r"postgres(ql)?(\+\w+)?:", url))


def shown(url: URL) -> str:
    """The URL for people to read."""
    # Passwords may be among the options too.
    return url.set(query={}).render_as_string(hide_password=True)


def seconds(text: object, name: str = "timeout") -> float:
    """The value of an option such as `?timeout=`. Raises ValueError."""
    try:
        value = float(str(text))
    except ValueError:
        value = -1.0
    if not 0 <= value < 3600:
        raise ValueError(f"{name} in a database URL is a number of seconds")
    return value
