"""The key's own sensors: calibrated as `tandem calibrate` does, then held against the true motion.

The virtual key of configs/piano_instrument.toml, moved by a rigid hand on the virtual clock; its voltages go through
the rows of that configuration. Errors are shares of the stroke, and of the greatest velocity.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from daq_service.devices import open_device
from daq_service.devices.contract import Host
from sim_service.inputs import make_inputs, observe_block
from sim_service.inputs.table import rows as input_rows
from sim_service.registry import load_machine
from sync.config.config import Config, load
from sync.virtual_clock import virtual_clock
from tandem.calibrate.readings import Captured
from tandem.calibrate.values import Calibration, calibratable, signal
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.piano.studies.study import Studies, Study
from tandem.reports.html.chart import Series

FILE = CONFIGS / "piano_instrument.toml"
DIP = 9.5e-3  # m
_WITHIN = 0.10  # of the stroke, at 5 Hz: the source's


def _scans(motion: str, seconds: float, settings: tuple[str, ...] = ()) -> tuple[Config, np.ndarray]:
    """Blocks of the virtual key whose hand, rigid, moves so."""
    hand = f"source.hand={{rigid=true, motion={motion}}}"
    config = load(FILE, [hand, *settings])
    clock = virtual_clock()
    device = open_device(config, FILE, Host(clock=clock))
    device.start()
    count = round(seconds * config.daq.rate_hz)
    blocks = np.zeros(count, config.daq.layout.dtype)
    scans, t_ns = np.zeros((256, len(config.daq.channels)), np.int64), np.zeros(256, np.int64)
    at = 0
    while at < count:
        clock.sleep_until(clock.now_ns() + 10_000_000)
        taken, _ = device.read(scans, t_ns, 0)
        taken = min(taken, count - at)
        for k, channel in enumerate(config.daq.channels):
            blocks[channel.name][at : at + taken] = scans[:taken, k]
        blocks["t_ns"][at : at + taken] = t_ns[:taken]
        at += taken
    device.stop()
    return config, blocks


@cache
def calibration() -> Calibration:
    """At rest, then pressed down and held: what the dialogue asks for."""
    press = f"{{points=[[0.0, 0.0], [0.6, 0.0], [0.8, {DIP}]]}}"
    config, blocks = _scans(press, 1.4)
    found = Calibration(calibratable(config.inputs), frozenset())
    rest, held = blocks[: round(0.5 * config.daq.rate_hz)], blocks[-round(0.5 * config.daq.rate_hz) :]
    for name, row in found.configured.items():
        found.zero[name], found.full[name] = (
            Captured(float(signal(row, part).mean()), 0.0, len(part), 1) for part in (rest, held)
        )
        found.amount[name] = DIP
        if found.integrates(name):
            on_the_way = float((signal(row, blocks) - found.zero[name].counts).sum() / config.daq.rate_hz)
            found.full[name] = Captured(on_the_way, 0.0, len(blocks), 1)
    return found


def _converted(config: Config, blocks: np.ndarray) -> np.ndarray:
    """Position and velocity of every block, by the configuration's rows with what calibration found."""
    sections = [
        f"inputs.{row}.{key}={value!r}" for row, own in calibration().settings().items() for key, value in own.items()
    ]
    settings = load(FILE, sections).inputs
    machine, _ = load_machine("piano_multibody")
    period = 1.0 / config.daq.rate_hz
    table = input_rows(settings, config.daq.layout, machine.inputs, period, period, config.sim.stale_after_ms)
    out, values = np.zeros((len(blocks), 2)), np.zeros(len(machine.inputs))
    words = blocks.view(np.int64).reshape(len(blocks), -1)
    for k, block in enumerate(words):
        observe_block(block, table)
        make_inputs(block, 0, period, table, values)
        out[k] = values[:2]
    return out


def _constants(study: Study) -> None:
    found, config = calibration().settings(), load(FILE)
    k, o, kappa = found["hall"]["gain"], found["hall"]["offset"], found["coil"]["kappa_v_s_per_m"]
    true = float(dict(config.source)["coil"].get("kappa", 12.0))
    study.row("Hall pair: k", f"{1e3 * k:.4f} mm/V²")
    study.row("Hall pair: o", f"{1e3 * o:.3f} mm")
    study.row("voice coil: kappa", f"{kappa:.3f} V s/m", f"{true:g}, within 1 %", abs(kappa - true) < 0.01 * true)
    places = np.linspace(0.0, DIP, 39)
    _, blocks = _scans(f"{{points=[[0.0, 0.0], [2.0, {DIP}]]}}", 2.0)
    row = calibration().configured["hall"]
    shown = [
        calibration().convert("hall", float(signal(row, blocks[round(x / DIP * 7990) :][:8]).mean())) for x in places
    ]
    bent = np.abs(np.array(shown) - places).max()
    study.row(
        "most beside a straight line",
        f"{1e3 * bent:.3f} mm, {100 * bent / DIP:.1f} % of the dip",
        "10 %",
        bent < 0.1 * DIP,
    )
    study.pictures.append(
        ("Measured over true position, mm", [Series("Hall pair", 1e3 * places, 1e3 * np.array(shown))], "mm")
    )


def _stroke(hz: float, middle: float, amplitude: float) -> Callable[[Study], None]:
    def measure(study: Study) -> None:
        seconds = max(2.0 / hz, 0.6)
        motion = f"{{points=[[0.0, {middle}]], amplitude={amplitude}, hz={hz}}}"
        config, blocks = _scans(motion, seconds)
        found = _converted(config, blocks)
        t = 1e-9 * (blocks["t_ns"] - blocks["t_ns"][0]).astype(float)
        angle = 2.0 * np.pi * hz * t
        true = np.column_stack([middle + amplitude * np.sin(angle), 2.0 * np.pi * hz * amplitude * np.cos(angle)])
        later = t > 0.25 * seconds  # what a filter that has just begun does is not the sensors'
        off = np.abs(found - true)[later].max(axis=0) / np.array([2.0 * amplitude, 2.0 * np.pi * hz * amplitude])
        for what, share in zip(("position", "velocity"), off, strict=True):
            study.row(f"{what}, most beside the true one", f"{100 * share:.1f} %", "10 %", share < _WITHIN)
        for name, k, factor in (("Position, mm", 0, 1e3), ("Velocity, mm/s", 1, 1e3)):
            lines = [
                Series(label, t[::16], factor * each[::16, k]) for label, each in (("measured", found), ("true", true))
            ]
            study.pictures.append((name, lines, "s"))

    return measure


STUDIES: Studies = {
    "constants": ("The key's sensors: k, o and kappa by calibration", _constants),
    "slow": ("Strokes at 0.5 Hz over the dip", _stroke(0.5, DIP / 2, DIP / 2)),
    "fast": ("Strokes at 5 Hz over the dip", _stroke(5.0, DIP / 2, DIP / 2)),
    "half-way": ("Half-way strokes at 3 Hz, from 4.5 to 9.5 mm", _stroke(3.0, 7e-3, 2.5e-3)),
}
