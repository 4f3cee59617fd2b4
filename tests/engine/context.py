"""Models whose context length is known."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bascule.upstreams.target import Target


def context_of(length: int) -> Callable[[Any], None]:
    """For `serving(adjust=...)`: every model of the gateway holds so many tokens."""

    def adjust(gateway: Any) -> None:
        router = gateway.router
        resolve = router.resolve

        def known(name: str, client_key: str | None = None) -> Target:
            return replace(resolve(name, client_key), context_length=length)

        router.resolve = known

    return adjust
