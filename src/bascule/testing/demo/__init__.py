"""The demo model: a rule set that makes a model server worth talking to, without a model."""

from bascule.testing.demo.model import answer
from bascule.testing.server import ModelServer

MODEL = "bascule-demo"

__all__ = ["MODEL", "answer", "demo_server"]


def demo_server(host: str = "127.0.0.1", port: int = 0) -> ModelServer:
    """A server of the demo model, not started yet."""
    return ModelServer(answer, models=[MODEL], host=host, port=port)
