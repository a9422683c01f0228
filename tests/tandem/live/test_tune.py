"""`tandem tune` refuses a name that the running machine has not, whether or not another is like it."""

from types import SimpleNamespace
from typing import Any

import pytest

from sync.errors import ConfigError
from tandem.live import tune as module


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ("frction=1", "frction: no parameter of omni; did you mean friction?"),
        ("nosuch=1", "nosuch: no parameter of omni"),
        ("=1", ": no parameter of omni"),
    ],
)
def test_a_name_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, asked: str, refusal: str) -> None:
    answer = {"ok": True, "model": "omni", "parameters": {"friction": {"value": 0.6, "first": 0.6, "live": True}}}
    client = SimpleNamespace(ask=lambda *_: answer, close=lambda: None)
    monkeypatch.setattr(module, "CommandClient", lambda _: client)
    config: Any = None
    with pytest.raises(ConfigError) as refused:
        module.tune(config, [asked], False)
    assert str(refused.value) == refusal
