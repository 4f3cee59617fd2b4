"""The demo model: a rule set that makes a model server worth talking to, without a model."""

from bascule.testing.answer import Answer, Reply
from bascule.testing.request import Request
from bascule.testing.server import ModelServer

MODEL = "bascule-demo"


def answer(request: Request) -> Answer:
    """What the demo model answers."""
    return Reply(f"I am a demo model; you sent {len(request.messages)} messages.")


def demo_server(host: str = "127.0.0.1", port: int = 0) -> ModelServer:
    """A server of the demo model, not started yet."""
    return ModelServer(answer, models=[MODEL], host=host, port=port)
