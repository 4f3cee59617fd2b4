"""Tools in plain Python, as an operator writes them into a module of `[tools] modules`."""

import asyncio
import sys
import threading
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bascule import ToolError, tool
from bascule.plugin import Part

STARTED = threading.Event()
RELEASE = threading.Event()


class Point(msgspec.Struct):
    x: int
    y: int = 0


@tool("acme:add")
def add(a: int, b: Annotated[int, Meta(description="The second number.", ge=0)] = 1) -> int:
    """Add two numbers.

    They are whole.
    """
    return a + b


@tool(type="acme:move", parallel=True, timeout=5, description="Move a point.")
async def move(point: Point, way: Literal["up", "down"], *, by: list[int]) -> dict[str, Any]:
    await asyncio.sleep(0)
    step = sum(by) if way == "up" else -sum(by)
    return {"point": Point(point.x, point.y + step), "thread": threading.current_thread().name}


@tool("acme:where")
def where() -> str:
    """Say which thread this is."""
    return threading.current_thread().name


@tool("acme:picture")
def picture() -> list[Part]:
    """Show a picture."""
    return [Part("input_image", image_url="data:image/png;base64,AAAA")]


@tool("acme:fail")
def fail(how: str) -> str:
    """Fail in some way."""
    match how:
        case "told":
            raise ToolError("There is no such city.", code="no_city")
        case "exit":
            sys.exit(3)
        case "stop":
            raise StopIteration
        case "value":
            return object()  # type: ignore[return-value]
        case _:
            raise KeyError("secret")


@tool("acme:exit")
async def exits() -> str:
    """End the process, or try to."""
    sys.exit(3)


@tool("acme:hang", timeout=0.05)
def hang() -> str:
    """Block until it is let go."""
    STARTED.set()
    RELEASE.wait(10)
    return "late"


@tool("acme:overlap")
async def overlap() -> int:
    """Count how many of these calls run at once."""
    OVERLAP.running += 1
    if OVERLAP.running == 2:
        OVERLAP.both.set()
    try:
        async with asyncio.timeout(0.2):
            await OVERLAP.both.wait()
    except TimeoutError:
        pass
    most, OVERLAP.running = OVERLAP.running, OVERLAP.running - 1
    return most


class Overlap:
    """What `acme:overlap` counts."""

    def __init__(self) -> None:
        self.running = 0
        self.both = asyncio.Event()


OVERLAP = Overlap()
