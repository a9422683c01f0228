"""The shipped lane change many times: one worker against two, killed at half and resumed, and on two Dask workers of
which one is killed: `python -m verify sweep --runs 1000`.

All tables must be the same file. Prints what it took, with the processor time beside it: on a machine that others use,
time on the wall says little. Exit code 1 if a table differs.
"""

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sync.child_python import python_command, python_environment
from sync.config.toml import read_toml
from tandem.console.shipped_configs import CONFIGS
from tandem.ensembles.sweep import TABLE, sweep
from verify.measure import Row, equal, figure, holds

STUDY = CONFIGS / "studies" / "lane_change.toml"


def timed(study: dict[str, Any], out: Path, workers: int) -> tuple[float, float]:
    """Seconds on the wall and of the processor."""
    begun, cpu = time.monotonic(), time.process_time()
    sweep(study, out, workers)
    return time.monotonic() - begun, time.process_time() - cpu


def rows_in(folder: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in folder.glob("rows-*.jsonl"))


def killed_at_half(study: Path, out: Path, runs: int) -> int:
    """A `tandem sweep` that is killed once half of its rows are there; how many were."""
    command = python_command("-m", "tandem", "sweep", str(study), "--out", str(out))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=python_environment())
    while rows_in(out) < runs // 2 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return rows_in(out)


def on_a_cluster(study: dict[str, Any], out: Path) -> float:
    """Two local workers with a certificate; one is killed at a third. Returns the share that was done then."""
    import distributed

    killed: list[float] = []
    file = str(out.with_suffix(".pem"))
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    request = ["openssl", "req", "-x509", *curve, "-nodes", "-subj", "/CN=tandem", "-keyout", file, "-out", file]
    subprocess.run(request, check=True, capture_output=True)
    security = distributed.Security(
        require_encryption=True, tls_ca_file=file, tls_client_cert=file, tls_scheduler_cert=file, tls_worker_cert=file
    )
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1", protocol="tls://",
        security=security,
    ) as cluster:  # fmt: skip
        pid = next(iter(cluster.workers.values())).pid

        def kill(_what: str, share: float) -> None:
            if share > 1 / 3 and not killed:
                killed.append(share)
                subprocess.run(["kill", "-9", str(pid)], check=True)

        sweep(study, out, cluster=cluster.scheduler_address, progress=kill, certificate=file)
    return killed[0] if killed else 1.0


def swept(*, runs: int = 1000, no_cluster: bool = False) -> Iterator[Row]:
    study = {**read_toml(STUDY), "machine": str(CONFIGS / "vehicles" / "buggy.toml")}
    study["sampling"] = {**study["sampling"], "count": runs}
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in ("warm", "one", "two", "cut", "cluster")}
        sweep({**study, "sampling": {**study["sampling"], "count": 2}}, folders["warm"])
        one, one_cpu = timed(study, folders["one"], 1)
        two, two_cpu = timed(study, folders["two"], 2)
        yield figure(f"{runs} runs by one worker; of the processor", f"{one:.1f}; {one_cpu:.1f}", "s")
        yield figure(f"{runs} runs by two workers; of the processor", f"{two:.1f}; {two_cpu:.1f}", "s")
        yield figure("two workers are faster than one", one / two, "times")
        file = Path(place) / "study.toml"
        text = STUDY.read_text().replace("count = 1000", f"count = {runs}")
        file.write_text(text.replace('"vehicles/buggy.toml"', json.dumps(study["machine"])))
        done = killed_at_half(file, folders["cut"], runs)
        again = sweep(study, folders["cut"])
        yield holds("killed on the way", 0 < done < runs, f"{done} rows, resumed with {again.made_now}")
        names = ["one", "two", "cut"]
        if not no_cluster:
            yield figure("two Dask workers, one of them killed at", on_a_cluster(study, folders["cluster"]))
            names.append("cluster")
        tables = {(folders[name] / TABLE).read_bytes() for name in names}
        yield equal(f"different tables of {', '.join(names)}", len(tables), 1)
