"""The shipped lane change many times: one worker against two, killed at half and resumed, and on two Dask workers of
which one is killed: `python -m verify.ensembles.sweep --runs 1000`.

All tables must be the same file. Prints what it took, with the processor time beside it: on a machine that others use,
time on the wall says little. Exit code 1 if a table differs.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sync.child_python import python_command, python_environment
from sync.config.toml import read_toml
from tandem.console.shipped_configs import CONFIGS
from tandem.ensembles.sweep import TABLE, sweep

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--no-cluster", action="store_true")
    asked = parser.parse_args()
    study = {**read_toml(STUDY), "machine": str(CONFIGS / "vehicles" / "buggy.toml")}
    study["sampling"] = {**study["sampling"], "count": asked.runs}
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place) / name for name in ("warm", "one", "two", "cut", "cluster")}
        sweep({**study, "sampling": {**study["sampling"], "count": 2}}, folders["warm"])
        one, one_cpu = timed(study, folders["one"], 1)
        two, two_cpu = timed(study, folders["two"], 2)
        print(
            f"{asked.runs} runs: one worker {one:.1f} s ({one_cpu:.1f} s of processor), two {two:.1f} s"
            f" ({two_cpu:.1f} s): {one / two:.2f} times; cores busy {one_cpu / one:.2f} and {two_cpu / two:.2f}"
        )
        file = Path(place) / "study.toml"
        text = STUDY.read_text().replace("count = 1000", f"count = {asked.runs}")
        file.write_text(text.replace('"vehicles/buggy.toml"', json.dumps(study["machine"])))
        done = killed_at_half(file, folders["cut"], asked.runs)
        again = sweep(study, folders["cut"])
        print(f"killed with {done} rows, resumed with {again.made_now}")
        names = ["one", "two", "cut"]
        if not asked.no_cluster:
            share = on_a_cluster(study, folders["cluster"])
            print(f"two Dask workers, one killed at {share:.0%}")
            names.append("cluster")
        same = len({(folders[name] / TABLE).read_bytes() for name in names}) == 1
        print("tables identical" if same else "TABLES DIFFER")
        return int(not same or not 0 < done < asked.runs)


if __name__ == "__main__":
    sys.exit(main())
