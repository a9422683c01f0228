"""A page without a browser, for what is drawn on it."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def server() -> Iterator[Any]:
    viser = pytest.importorskip("viser")
    with contextlib.redirect_stdout(io.StringIO()):
        made = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    yield made
    with contextlib.redirect_stdout(io.StringIO()):
        made.stop()
