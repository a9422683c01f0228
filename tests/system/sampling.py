"""A real DAQ service in a thread of the test, for devices that live in this process, and a real simulator beside it."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from daq_service.service import prepare
from sync.config.config import Config
from sync.process.service import Reporter
from tandem.live.supervisor.supervise import sweep
from tests.system.conftest import PATIENCE_S, Program

Start = Callable[..., Program]


@contextlib.contextmanager
def sampling(config: Config, file: Path) -> Iterator[list[Any]]:
    """The DAQ service in a thread; its report, once it has ended."""
    stop, report = threading.Event(), []
    service = prepare(config, file)
    service.find()
    reporter = Reporter("daq", False, stop, None)
    thread = threading.Thread(target=lambda: report.append(service.run(config, file, stop, reporter)), daemon=True)
    thread.start()
    try:
        yield report
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        sweep(config)  # what a killed simulator left


def simulator(start: Start, file: Path, settings: list[str]) -> Program:
    return start("tandem", "sim", str(file), *(word for setting in settings for word in ("--set", setting)))
