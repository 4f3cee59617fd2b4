"""Plans that were made before, by the declarations that they were made of."""

from collections import OrderedDict

from bascule.protocols.upstream import ModelSurface
from bascule.toolkit.plan import ToolPlan

_Key = tuple[ModelSurface, int, bytes]


class PlanCache:
    """Plans by the declarations' bytes: agents send the same hundred tools every turn.

    Holds at most `size` plans and `max_bytes` of declarations; the longest unused go first.
    """

    def __init__(self, size: int = 128, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._plans: OrderedDict[_Key, tuple[bytes, ToolPlan]] = OrderedDict()
        self._size = size
        self._max_bytes = max_bytes
        self._bytes = 0

    def get(self, surface: ModelSurface, declarations: bytes) -> ToolPlan | None:
        key = _key(surface, declarations)
        found = self._plans.get(key)
        if found is None or found[0] != declarations:
            return None
        self._plans.move_to_end(key)
        return found[1]

    def put(self, surface: ModelSurface, declarations: bytes, plan: ToolPlan) -> None:
        key = _key(surface, declarations)
        old = self._plans.pop(key, None)
        self._bytes += len(declarations) - (len(old[0]) if old else 0)
        self._plans[key] = (declarations, plan)
        while len(self._plans) > self._size or self._bytes > self._max_bytes:
            _, (gone, _) = self._plans.popitem(last=False)
            self._bytes -= len(gone)


def _key(surface: ModelSurface, declarations: bytes) -> _Key:
    # Comparing two equal lists of 200 kB is several times cheaper than hashing one.
    return surface, len(declarations), declarations[-128:]
