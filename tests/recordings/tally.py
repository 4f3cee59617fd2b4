"""How many recordings of each family were replayed, for the summary at the end of a run."""

from collections import Counter

_replayed: dict[tuple[str, str], set[str]] = {}
_excluded: dict[tuple[str, str], Counter[str]] = {}
_adapted: Counter[str] = Counter()


def replayed(kind: str, family: str, name: str) -> None:
    _replayed.setdefault((kind, family), set()).add(name)


def excluded(kind: str, family: str, reason: str) -> None:
    _excluded.setdefault((kind, family), Counter())[reason] += 1


def adapted(reason: str) -> None:
    """Something in a recording that was replayed could not be compared."""
    _adapted[reason] += 1


def lines() -> list[str]:
    """A line for each family."""
    found: list[str] = []
    for kind, family in sorted({*_replayed, *_excluded}):
        line = f"{kind:10} {family:26} {len(_replayed.get((kind, family), ())):3} replayed"
        for reason, number in sorted(_excluded.get((kind, family), Counter()).items()):
            line += f", {number} left out: {reason}"
        found.append(line)
    found += [f"{number:3} times: {reason}" for reason, number in sorted(_adapted.items())]
    return found
