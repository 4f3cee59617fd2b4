"""Log probabilities of tokens; Responses has them as Chat does, with nothing left out."""

from typing import Any, cast

from bascule.protocols import json


def token_logprob(value: Any) -> dict[str, Any]:
    """One token of `logprobs.content`. Servers leave out the bytes or the alternatives, which Open
    Responses requires."""
    token = _token(value)
    others = (json.as_object(value) or {}).get("top_logprobs")
    alternatives = cast("list[Any]", others) if isinstance(others, list) else []
    return {**token, "top_logprobs": [_token(other) for other in alternatives]}


def _token(value: Any) -> dict[str, Any]:
    members = json.as_object(value) or {}
    token = str(members.get("token") or "")
    known = members.get("bytes")
    return {
        "token": token,
        "logprob": members.get("logprob") or 0.0,
        "bytes": known if isinstance(known, list) else list(token.encode("utf-8", "replace")),
    }
