"""What the demo model says."""

import re
from typing import Any, cast

import msgspec

from bascule.testing.demo.conversation import Conversation, Result
from bascule.testing.steps import Json

_FIRST = "This is your first message to the demo model."
_MOST_RESULT = 600
_NAME = re.compile(r"\b(?:my name is|i am called|call me)\s+([^\W\d_][\w'-]*)", re.IGNORECASE)


def answer_text(talk: Conversation) -> str:
    """The answer to the last user request, in words."""
    if talk.results:
        return _report(talk)
    text = small_talk(talk) or _default(talk)
    if talk.images:
        plural = "an image" if talk.images == 1 else f"{talk.images} images"
        text += f" I have received {plural}, which a demo model cannot look at."
    return text


def _report(talk: Conversation) -> str:
    lines = [_line(result) for result in talk.results]
    head = "I am a demo model, so this only repeats what the tools returned."
    if len(lines) == 1:
        return f"{head} {lines[0]}"
    return "\n".join([head, *(f"- {line}" for line in lines)])


def _line(result: Result) -> str:
    given = _readable(result.arguments)
    call = f"{result.name or 'The tool'}{f' ({given})' if given else ''}"
    text = _readable(result.text)
    if len(text) > _MOST_RESULT:
        text = text[:_MOST_RESULT] + " ..."
    return f"{call}: {text or 'no output'}"


def _readable(text: str) -> str:
    """JSON as `key: value` pairs, any other text as it is."""
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text.strip()
    return _spelled(value)


def _spelled(value: Any) -> str:
    if isinstance(value, dict):
        fields = cast("Json", value)
        return ", ".join(f"{key}: {_spelled(inner)}" for key, inner in fields.items())
    if isinstance(value, list):
        return ", ".join(_spelled(inner) for inner in cast("list[Any]", value))
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def small_talk(talk: Conversation) -> str | None:
    """The answer to a greeting, thanks, a question about the model itself; None for all else."""
    said = talk.request.strip().lower()
    if re.search(r"\bwhat(?:'s| is) my name\b|\bwho am i\b", said):
        return _your_name(talk)
    introduced = _NAME.search(talk.request)
    if introduced:
        return f"Nice to meet you, {introduced[1]}! I am a demo model, but I can remember a name."
    if re.search(r"\b(?:what|which) (?:\w+ )?(?:tools|functions)\b|\bwhat can you do\b", said):
        return _abilities(talk)
    if re.search(r"\bwho are you\b|\bwhat are you\b|\bwhat(?:'s| is) your name\b", said):
        return "I am bascule-demo, a demo model: a few rules that need no GPU and no network."
    if re.search(
        r"\bwhat did i (?:say|ask|write)|\bmy (?:last|previous|first) (?:message|question)", said
    ):
        before = talk.earlier[-1] if talk.earlier else ""
        return f'I am a demo model, but I know: "{before}"' if before else _FIRST
    if re.match(r"(?:hi|hello|hey|good (?:morning|evening|afternoon|day))\b", said):
        return "Hello! I am a demo model. Ask me for something that one of your tools can do."
    if re.search(r"\bthank(?:s| you)\b", said):
        return "You are welcome. I remain a demo model."
    if re.match(r"(?:bye|goodbye|see you)\b", said):
        return "Goodbye from the demo model!"
    return None


def _your_name(talk: Conversation) -> str:
    for text in reversed(talk.earlier):
        found = _NAME.search(text)
        if found:
            return f"Your name is {found[1]}. Even a demo model can remember that."
    return "You have not told me your name, and a demo model cannot guess."


def _abilities(talk: Conversation) -> str:
    if not talk.tools:
        return "I am a demo model, and no tools were declared to me."
    names = ", ".join(tool.name for tool in talk.tools[:20])
    return f"I am a demo model. I can call the tools that you declare: {names}."


def _default(talk: Conversation) -> str:
    quoted = " ".join(talk.request.split())
    if len(quoted) > 200:
        quoted = quoted[:200] + "..."
    said = f'You said: "{quoted}".' if quoted else "You have not said anything."
    if not talk.tools:
        advice = "Point Bascule at a real model server for a real answer."
    elif talk.choice.mode == "none":
        advice = "I was told not to call any tools."
    else:
        advice = "Nothing in it matched the tools that you declare."
    return f"I am a demo model, so I have no knowledge of my own. {said} {advice}"
