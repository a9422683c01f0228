"""A short run of a configuration, without any effort, for what a check measures of it."""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from sync.child_python import python_command, python_environment
from sync.config.config import Config
from sync.errors import ConfigError
from sync.process.silence import Silence

SILENT_S = 300.0  # behind what the run may take: nothing was compiled since
_POLL_S = 1.0


def trial_run(config: Config, file: Path, overrides: list[str], seconds: float) -> dict[str, Any]:
    """Its report, with a round trip. Raises ConfigError where the run does not come about."""
    settings = [
        *overrides, f"name=loop_{os.getpid()}", "view.enabled=false", "supervision.restart=false",
        *(f"{key}.gain=0.0" for key, _ in config.efforts.values()),  # no force on a hand before the limits are known
    ]  # fmt: skip
    if config.source.get("own_process"):
        settings.append("source.own_process=false")  # a device of the run's own name has not been started
    return _report(file, tuple(settings), seconds)


@functools.cache  # what one run is asked about twice is measured once
def _report(file: Path, settings: tuple[str, ...], seconds: float) -> dict[str, Any]:
    options = [word for setting in settings for word in ("--set", setting)]
    command = python_command("-m", "tandem", "run", str(file), *options, "--seconds", str(seconds), "--no-record")
    with tempfile.TemporaryDirectory() as folder:
        words = [*command, "--json", "--runs", folder]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=python_environment()
        ) as process:
            printed, errors = _awaited(process, Silence(SILENT_S + seconds), file, seconds)
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if not ((found.get("effort") or {}).get("round_trip_us") or {}).get("round_trip", {}).get("n"):
        last_line = (errors.strip().splitlines() or ["no word of it"])[-1]
        raise ConfigError(f"{file}: the haptic loop could not be measured: {last_line}")
    return found


def _awaited(process: "subprocess.Popen[str]", silence: Silence, file: Path, seconds: float) -> tuple[str, str]:
    """What it printed, on both."""
    while True:
        try:
            return process.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if silence.too_long:
                process.kill()
                raise ConfigError(
                    f"{file}: the haptic loop could not be measured: a run of {seconds:g} s has not ended, and nothing"
                    f" was compiled for {SILENT_S + seconds:g} s"
                ) from None
