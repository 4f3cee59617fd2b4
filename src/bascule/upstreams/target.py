"""Where a turn's inference goes: one upstream and one of its models."""

from dataclasses import dataclass

from bascule.protocols.errors import invalid
from bascule.protocols.flags import Flags
from bascule.protocols.upstream import ModelSurface, UpstreamProtocol
from bascule.upstreams.client import Headers, Timeouts, UpstreamClient


@dataclass(frozen=True, slots=True)
class Target:
    """A resolved model. `headers` hold the upstream's key and are never logged."""

    upstream: str
    model: str
    """The model's name at the upstream."""
    protocol: UpstreamProtocol
    url: str
    headers: Headers
    flags: Flags
    client: UpstreamClient
    timeouts: Timeouts
    surface: ModelSurface
    name: str = ""
    """That of `[[models]]`; empty for a model that is not there. No client can make it up."""
    context_length: int | None = None
    """Tokens of prompt and answer together, where known."""
    max_output_tokens: int | None = None

    def check_output(self, wanted: int | None) -> None:
        """ApiError 400 for more output than the model can give."""
        most = self.max_output_tokens
        if wanted is not None and most is not None and wanted > most:
            raise invalid(
                f"Invalid value for 'max_output_tokens': {wanted} is more than the {most} that the "
                "model can give.",
                "max_output_tokens",
                code="integer_above_max_value",
            )

    def masked(self, text: str) -> str:
        """A server's own words without the key that it was given: some repeat it in their errors."""
        for name, value in self.headers:
            if name == b"authorization":
                key = value.removeprefix(b"Bearer ").decode("latin-1")
                text = text.replace(key, "***")
        return text

    def __repr__(self) -> str:
        return f"Target({self.upstream!r}, {self.model!r})"
