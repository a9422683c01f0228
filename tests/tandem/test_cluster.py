"""The same study on a Dask cluster of real processes: the table is the same file, also when a worker is killed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sync.errors import ConfigError, TandemError
from tandem.ensembles.sweep import sweep
from tests.tandem.test_sweep import study

pytestmark = pytest.mark.drill
_START_S = 120


def _dask(*arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"]]]:
    """A scheduler and two workers of one thread."""
    import json

    place = tmp_path / "scheduler.json"
    with ExitStack() as stack:

        def start(*arguments: str) -> "subprocess.Popen[bytes]":
            process = stack.enter_context(_dask(*arguments))
            stack.callback(process.kill)
            return process

        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(place))
        end = time.monotonic() + _START_S
        while not place.exists() and time.monotonic() < end:
            time.sleep(0.05)
        address = json.loads(place.read_text())["address"]
        workers = [start("worker", address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1") for _ in range(2)]
        import distributed

        with distributed.Client(address) as client:
            client.wait_for_workers(2, timeout=_START_S)
        yield address, workers


def test_a_cluster_gives_the_same_file_though_a_worker_is_killed(cluster, tmp_path: Path) -> None:
    address, workers = cluster
    long = study(parameters={"stiffness": {"low": 100.0, "high": 400.0, "points": 400}})
    long["manoeuvre"]["seconds"] = 100.0
    killed = []

    def kill(_what: str, share: float) -> None:
        if share > 0.3 and not killed:
            workers[0].kill()
            killed.append(share)

    far = sweep(long, tmp_path / "far", cluster=address, progress=kill)
    assert killed and killed[0] < 1.0 and workers[0].wait() != 0
    here = sweep(long, tmp_path / "here")
    assert far.made_now == here.made_now == 400
    assert far.folder.joinpath("table.parquet").read_bytes() == here.folder.joinpath("table.parquet").read_bytes()


def test_an_address_without_a_scheduler_is_said(tmp_path: Path) -> None:
    with pytest.raises((ConfigError, TandemError), match="no scheduler answers there"):
        sweep(study(), tmp_path, cluster="tcp://127.0.0.1:9")
