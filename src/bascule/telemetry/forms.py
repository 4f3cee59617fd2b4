"""How log lines look, and which there are."""

from typing import Literal

Form = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
