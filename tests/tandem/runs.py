"""Small runs for tests of what looks at them: a drive with a known motion, recorded as the recorder would."""

import json
import math
from pathlib import Path

import numpy as np

from sim_service.registry import load_machine
from sim_service.step_record import NEW_EPOCH, STALE, output_layout
from sync.config.config import load
from sync.record import RunWriter
from sync.ring.block import Layout

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CONFIG = load(CONFIGS / "drive.toml", ["sim.machine=vehicles/buggy_single_track.toml"])
MACHINE, PARAMS = load_machine(CONFIGS / CONFIG.sim.machine)
DAQ, STEP = CONFIG.daq.layout, output_layout(MACHINE)
MS = 1_000_000
BEGIN_NS = 5_000_000_000_000


def daq_words(n: int, period_ns: int = MS) -> np.ndarray:
    """Blocks with a swinging wheel."""
    words = np.zeros((n, DAQ.words), np.int64)
    blocks = DAQ.view(words)
    number = np.arange(n)
    blocks["seq"], blocks["epoch"] = number, 7
    blocks["t_ns"] = BEGIN_NS + period_ns * number
    blocks["pushed_ns"] = blocks["t_ns"] + 20_000
    blocks["brake"], blocks["throttle"] = number % 300, 100 + number % 200
    blocks["steering"] = np.round(400 * np.sin(number / 150))
    return words


def step_words(n: int, radius: float = 50.0, speed: float = 10.0) -> np.ndarray:
    """Steps every 5 ms along a circle to the left, from the origin along x."""
    words = np.zeros((n, STEP.words), np.int64)
    steps = STEP.view(words)
    number = np.arange(n)
    t = 5 * MS * number
    steps["seq"] = steps["step"] = number
    steps["t_ns"] = BEGIN_NS + t
    steps["started_ns"] = steps["t_ns"] + 5_000
    steps["taken_ns"] = steps["t_ns"] + 6_000
    steps["pushed_ns"] = steps["t_ns"] + 16_000
    steps["input_seq"], steps["input_epoch"] = 5 * number, 7
    steps["input_t_ns"] = steps["t_ns"]
    steps["input_age_ns"] = 6_000 + 100 * (number % 50)
    steps["status"][:1] = NEW_EPOCH
    steps["status"][3:5] = STALE
    angle = speed / radius * t * 1e-9
    steps["time"] = t * 1e-9
    steps["x"], steps["y"], steps["yaw"] = radius * np.sin(angle), radius * (1 - np.cos(angle)), angle
    steps["vx"], steps["yaw_rate"] = speed, speed / radius
    steps["steering_angle"] = 0.3 * np.sin(number / 30)
    steps["ay"] = speed**2 / radius
    return words


SHOWN = [  # as a machine of a record has it shown
    {"channel": channel, "title": title, "unit": unit, "factor": factor}
    for channel, title, unit, factor in (
        ("steering_angle", "steering", "deg", math.degrees(1.0)), ("throttle", "throttle", "%", 100.0),
        ("vx", "speed", "km/h", 3.6), ("yaw_rate", "yaw rate", "deg/s", math.degrees(1.0)),
        ("ay", "lateral acc.", "m/s²", 1.0),
    )
]  # fmt: skip


def write_run(
    folder: Path,
    topics: dict[str, tuple[Layout, np.ndarray]],
    finish: bool = True,
    attachments: dict[str, bytes] | None = None,
    lost: str = "3",
) -> Path:
    """Rows of words by topic, with their layouts."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = RunWriter(folder, fsync_s=1e6)
    parameters = {"model": MACHINE.name, "parameters": {"mass": {"value": 1.0, "unit": "kg"}}, "shown": SHOWN}
    kept = {
        "config.json": CONFIG.model_dump_json().encode(),
        "machine.toml": (CONFIGS / CONFIG.sim.machine).read_bytes(),
        "parameters.json": json.dumps(parameters).encode(),
    }
    facts = {"name": "a drive", "utc": "2026-01-01T00:00:00+00:00", "transport": "shm"}
    writer.begin(facts, {**kept, **(attachments or {})}, BEGIN_NS)
    for name, (layout, words) in topics.items():
        writer.topic(name, layout)
        for first in range(0, len(words), 1000):
            writer.add(name, words[first : first + 1000], first)
            writer.flush()
    if finish:
        facts = {"reason": "stopped", "lost /daq": lost, "dropped /daq": "2" if lost != "0" else "0"}
        assert writer.finish(facts, {}, BEGIN_NS + 1)
    else:
        assert writer.sink.close()
    return folder


def write_drive(folder: Path, n: int = 400, steps: np.ndarray | None = None, daq: np.ndarray | None = None) -> Path:
    steps = step_words(n) if steps is None else steps
    daq = daq_words(5 * n) if daq is None else daq
    return write_run(folder, {"/daq": (DAQ, daq), "/step": (STEP, steps)})
