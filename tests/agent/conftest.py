"""Logging stays as the other tests expect it: whoever uses an agent first would configure it for all."""

import pytest


@pytest.fixture(autouse=True)
def _logging_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(form: str, level: str) -> None:
        assert (form, level) == ("text", "error")

    monkeypatch.setattr("bascule.agent.agent.configure_later", later)
