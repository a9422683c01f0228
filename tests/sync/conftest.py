import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sync.ring.block import Channel, Layout
from sync.transport.wire import Context, context
from tests.sync.actors import Actor, Nursery

SHM = Path("/dev/shm")
_numbers = itertools.count()


def _ours() -> set[str]:
    return {path.name for path in SHM.glob(f"tandem.test.{os.getpid()}.*")}


@pytest.fixture
def ring_name() -> Iterator[str]:
    """A name no other test has; what is left under it (and `ring_name + anything`) is removed, and nothing else."""
    found = _ours()
    name = f"tandem.test.{os.getpid()}.{next(_numbers):04}"
    yield name
    for path in SHM.glob(f"{name}*"):
        path.unlink()
    assert _ours() == found


@pytest.fixture(scope="session")
def _nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def new_actor(_nursery: Nursery) -> Iterator[Callable[[], Actor]]:
    """Makes processes; those that still live when the test is over are killed."""
    yield _nursery.actor
    _nursery.clear()


@pytest.fixture
def actor(new_actor: Callable[[], Actor]) -> Actor:
    return new_actor()


@pytest.fixture
def car() -> Layout:
    """The block of configs/drive.toml, written out once more."""
    return Layout(
        (
            Channel("brake", "i2", "count", -200_000),
            Channel("throttle", "i2", "count"),
            Channel("steering", "i4", "count"),
        )
    )


@pytest.fixture
def zmq_context() -> Iterator[Context]:
    made = context()
    yield made
    made.destroy(0)


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A short path: that of a local socket may have 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="tandem") as folder:
        yield Path(folder)
