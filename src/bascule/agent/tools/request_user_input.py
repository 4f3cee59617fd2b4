"""`request_user_input`: questions to the user, where there is one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from bascule.agent.calls import ToolKind, ToolName, ToolOutput
from bascule.agent.handler import (
    LocalHandler,
    ToolInvocation,
    ToolSpec,
    arguments,
    function,
    schema,
)
from bascule.protocols import json


class Option(msgspec.Struct):
    label: str
    description: str = ""


class UserQuestion(msgspec.Struct):
    id: str
    question: str
    header: str = ""
    options: Annotated[list[Option], Meta(min_length=2, max_length=3)] | None = None


class Arguments(msgspec.Struct):
    questions: Annotated[list[UserQuestion], Meta(min_length=1, max_length=3)]


Answers = Callable[[Sequence[UserQuestion]], Awaitable[Sequence[str] | None]]
"""Asks a person: an answer to each, or None if they do not want to."""


class RequestUserInput(LocalHandler):
    name = ToolName(None, "request_user_input")

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def spec(self) -> ToolSpec:
        text = {"type": "string"}
        option = schema(["label", "description"], label=text, description=text)
        question = schema(
            ["id", "header", "question", "options"],
            id={**text, "description": "A name for the answer."},
            header={**text, "description": "A word or two."},
            question={**text, "description": "The question."},
            options={
                "type": "array",
                "items": option,
                "description": "Two or three answers to it.",
            },
        )
        return function(
            "request_user_input",
            "Asks the user one to three short questions, and waits for the answers.",
            schema(["questions"], questions={"type": "array", "items": question}),
        )

    def kind(self) -> ToolKind:
        return ToolKind.FUNCTION

    async def handle(self, invocation: ToolInvocation) -> ToolOutput:
        asked = arguments(invocation.payload, Arguments).questions
        said = await self._answers(asked)
        if said is None:
            return ToolOutput(content="The user did not answer.", success=False)
        answers = {
            question.id: {"answers": [answer]} for question, answer in zip(asked, said, strict=True)
        }
        return ToolOutput(content=json.encode({"answers": answers}).decode())
