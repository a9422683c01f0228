"""The same study on a Dask cluster of real processes with certificates, started as docs/cluster.md has it: the table
is the same file, also when a worker is killed; whoever has another certificate, or none, is refused."""

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from sync.errors import ConfigError, TandemError
from tandem.ensembles.cluster import connected, who_can_use
from tandem.ensembles.sweep import sweep
from tests.tandem.ensembles.test_sweep import study

_START_S = 120
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"


def documented(program: str) -> list[str]:
    """The words of the one command of the page that starts with this."""
    (line,) = re.findall(rf"^{program} .*$", _PAGE.read_text(), re.MULTILINE)
    return shlex.split(re.sub(r"\b(OWN_)?ADDRESS\b", "127.0.0.1", line.rstrip("& ")))


def make_certificate(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    subprocess.run(documented("openssl req"), cwd=folder, check=True, capture_output=True)
    return folder / "cluster.pem"


@dataclass
class Cluster:
    address: str
    certificate: Path
    workers: list["subprocess.Popen[bytes]"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler and two workers of one thread."""
    place = tmp_path / "scheduler.json"
    certificate = make_certificate(tmp_path)
    with ExitStack() as stack:

        def start(words: list[str], *more: str) -> "subprocess.Popen[bytes]":
            command = [sys.executable, "-m", *words, *more]
            process = stack.enter_context(
                subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            stack.callback(process.kill)
            return process

        start(documented("dask scheduler"), "--port", "0", "--scheduler-file", str(place))
        end = time.monotonic() + _START_S
        while not place.exists() and time.monotonic() < end:
            time.sleep(0.05)
        address = json.loads(place.read_text())["address"]
        assert address.startswith("tls://127.0.0.1:")
        words = [address if "8786" in word else word for word in documented("dask worker")]
        workers = [start(words, "--no-nanny", "--nthreads", "1") for _ in range(2)]
        import distributed

        security = distributed.Security(
            require_encryption=True, tls_ca_file=str(certificate), tls_client_cert=str(certificate)
        )
        with distributed.Client(address, security=security) as client:
            client.wait_for_workers(2, timeout=_START_S)
            assert all(worker.startswith("tls://127.0.0.1:") for worker in client.nthreads())
        yield Cluster(address, certificate, workers)


@pytest.mark.drill
def test_a_cluster_gives_the_same_file_though_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    long = study(parameters={"stiffness": {"low": 100.0, "high": 400.0, "points": 400}})
    long["manoeuvre"]["seconds"] = 100.0
    killed = []

    def kill(_what: str, share: float) -> None:
        if share > 0.3 and not killed:
            cluster.workers[0].kill()
            killed.append(share)

    far = sweep(long, tmp_path / "far", cluster=cluster.address, progress=kill, certificate=cluster.certificate)
    assert killed and killed[0] < 1.0 and cluster.workers[0].wait() != 0
    here = sweep(long, tmp_path / "here")
    assert far.made_now == here.made_now == 400
    assert far.folder.joinpath("table.parquet").read_bytes() == here.folder.joinpath("table.parquet").read_bytes()


@pytest.mark.drill
def test_a_certificate_that_is_not_the_cluster_s_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    far = sweep(study(), tmp_path / "far", cluster=cluster.address, certificate=cluster.certificate)
    here = sweep(study(), tmp_path / "here")
    assert far.folder.joinpath("table.parquet").read_bytes() == here.folder.joinpath("table.parquet").read_bytes()
    other = make_certificate(tmp_path / "other")
    with pytest.raises(TandemError, match="does not fit the scheduler's"):
        sweep(study(), tmp_path / "out", cluster=cluster.address, certificate=other)
    plain = cluster.address.replace("tls://", "tcp://")
    with pytest.raises(TandemError, match="no scheduler answers there"), pytest.warns(UserWarning, match="every user"):
        sweep(study(), tmp_path / "out", cluster=plain)


@pytest.mark.drill
def test_an_address_without_a_scheduler_is_said(tmp_path: Path) -> None:
    with pytest.raises(TandemError, match="no scheduler answers there"), pytest.warns(UserWarning, match="every user"):
        sweep(study(), tmp_path, cluster="tcp://127.0.0.1:9")


def test_a_cluster_without_tls_is_taken_on_the_loopback_alone_and_with_a_warning(tmp_path: Path) -> None:
    for address in ("tls://192.0.2.7:8786", "tls://cluster:8786", "tls://[2001:db8::1]:8786"):
        assert who_can_use(address) == ""
    for address in ("tcp://127.0.0.1:8786", "tcp://[::1]:8786", "tcp://localhost:8786", "127.0.0.2:8786"):
        assert "every user of this machine can run code" in who_can_use(address)
    for address in ("tcp://192.0.2.7:8786", "tcp://0.0.0.0:8786", "cluster:8786", "tcp://127.0.0.1.example.org:8786"):
        with pytest.raises(ConfigError, match="everyone who reaches that port runs code"):
            sweep(study(), tmp_path / "none", cluster=address)
    for address in ("ws://127.0.0.1:8786", "inproc://x", "tls://127.0.0.1", "tls://:8786", "tls://a:b", "["):
        with pytest.raises(ConfigError, match="address of a Dask scheduler"):
            sweep(study(), tmp_path / "none", cluster=address)
    assert not (tmp_path / "none").exists()


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cluster.pem"

    def error(certificate: Path | str, address: str = "tls://127.0.0.1:9") -> str:
        with pytest.raises(ConfigError) as found, connected(address, str(certificate), pytest.fail):
            pass
        return str(found.value)

    assert "No such file" in error(file)
    file.write_text("rubbish")
    file.chmod(0o640)
    assert "chmod 600" in error(file)
    file.chmod(0o600)
    assert "must hold a certificate and its key" in error(file)
    assert "with which certificate?" in error("")
    assert "tls:// alone" in error(file, "tcp://127.0.0.1:9")
