"""Measured strokes, the measured key imposed on the grand action: its hammer beside the measured one.

configs/strokes/kawai_kg3c.csv: two reflective sensors on an action of a Kawai KG-3C. Their owner's calibrations
(rulers, in steps of 1/32 and 1/64 inch) are used as they are; where both read the same slow stroke they do not agree
with any lever of constant ratio, so the slow stroke calibrates the hammer's sensor against the key's once more: up to
let-off the jack carries the hammer, and where it is then is known. The action is regulated to that piano by the slow
stroke, too, as a regulator does by hand: where it lets off, how far the hammer drops, how far it is from the string
when it is in check. The height of check was chosen by the others, so that no stroke is wholly unused. Of the repeated
strokes only the notes are compared: how a hammer falls between them hangs on when its check lets it go.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from sync.files.regular import read_regular
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.piano.studies.study import H, Played, Studies, Study, move
from tandem.reports.html.chart import Series

FILE = CONFIGS / "strokes" / "kawai_kg3c.csv"
RULER = 12.7e-3  # m: the key's travel of one
REPEATED = "repeated"
_SETTLE = 0.4  # s
STRUCK, APART = 0.97, 0.03  # share of its travel from which the hammer is at the string; s, between two strikes
NEAR, LATE, PLACE = 0.05, 5e-3, 0.05  # of the hammer's travel, rms; s, of its peak; of the dip, of let-off
# owner's calibration: share of the travel over share of the reading, of key and hammer
_KEY = (
    (0.3, 0.58),
    (0, 0.0015, 0.0035, 0.0064, 0.0115, 0.0165, 0.026, 0.0365, 0.057, 0.081, 0.145, 0.225, 0.365, 0.57, 0.81, 1),
    [k / 16 for k in range(16)],
)
_HAMMER = (
    (0.69, 0.29),
    (0, 0.015, 0.04, 0.11, 0.17, 0.28, 0.39, 0.57, 0.75, 0.9, 1),
    [*(k / 10 for k in range(10)), 0.95],
)
_KEY_DOWN, _STRING = 0.937, 0.953  # of the calibrated travels: key on its bed, hammer at the string
_REGULATED = {
    "let_off_button": 0.0512, "string_angle": 0.062, "key_dip": 0.01102, "drop_screw": 0.0822, "back_check": 0.00235,
    "repetition_spring": 0.038,
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    t: np.ndarray
    key: np.ndarray  # calibrated, shares of the ruler's travel
    hammer: np.ndarray


def _calibrated(reading: np.ndarray, by: tuple[tuple[float, float], tuple[float, ...], list[float]]) -> np.ndarray:
    (offset, gain), readings, travels = by
    share = (reading - offset) / gain
    slope = (travels[-1] - travels[-2]) / (readings[-1] - readings[-2])
    return np.interp(share, readings, travels) + np.maximum(share - readings[-1], 0.0) * slope


def _smooth(x: np.ndarray, count: int) -> np.ndarray:
    window = np.hanning(count + 2)[1:-1]
    padded = np.pad(x, count // 2, mode="edge")
    return np.convolve(padded, window / window.sum(), "valid")


@cache
def strokes() -> dict[str, Measured]:
    lines = [line for line in read_regular(FILE).decode().splitlines() if line and not line.startswith("#")]
    rows = [line.split(",") for line in lines[1:]]
    found = {}
    for name in dict.fromkeys(row[0] for row in rows):
        t, hammer, key = np.array([[float(each) for each in row[1:]] for row in rows if row[0] == name]).T
        found[name] = Measured(t, _smooth(_calibrated(key, _KEY), 9), _smooth(_calibrated(hammer, _HAMMER), 5))
    return found


@dataclass(frozen=True)
class Fitted:
    """What the slow stroke says."""

    let_off: float  # m, of the measured key where its hammer is highest
    at: float  # m, where the model's hammer is highest
    hammer: tuple[np.ndarray, np.ndarray]  # share of the travel as read, and as it is


def _share(run: Played, string: float) -> np.ndarray:
    hammer = run.of("hammer")
    found: np.ndarray = (hammer - hammer[0]) / (string - hammer[0])
    return found


@cache
def fitted() -> Fitted:
    slow = strokes()["slow"]
    key, hammer = _smooth(slow.key, 9), _smooth(slow.hammer, 9)
    top = int(hammer.argmax())
    rest, low = float(np.median(key[:80])), float(np.median(hammer[:80]))
    x = np.clip(np.arange(round(3.0 / H)) * H / 2.9, 0.0, 1.0) * _REGULATED["key_dip"]
    run = move("piano_multibody", x, np.gradient(x, H), None, np.zeros(len(x)), **_REGULATED)
    share = _share(run, _REGULATED["string_angle"])
    highest = int(share[: round(2.8 / H)].argmax())
    at, reading = float(run.of("port")[highest]), float(key[top])
    # the hammer's sensor, where the jack carries it
    order = np.argsort(key[: top + 1])
    readings = np.linspace(rest + 0.02, reading, 40)
    read = np.interp(readings, key[: top + 1][order], (hammer[: top + 1][order] - low) / (_STRING - low))
    true = np.interp(at * (readings - rest) / (reading - rest), run.of("port")[: highest + 1], share[: highest + 1])
    true *= read[-1] / true[-1]
    return Fitted(RULER * (reading - rest), at, (np.array([0.0, *read, 1.0]), np.array([0.0, *true, 1.0])))


def played(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, Played]:
    """(s, measured hammer as a share of its travel, the model's, the run)."""
    of, by = strokes()[name], fitted()
    rest, low = float(np.median(of.key[: len(of.key) // 10])), float(np.median(of.hammer[: len(of.key) // 10]))
    t = np.arange(of.t[0], of.t[-1], H)
    x = np.clip(_smooth(np.interp(t, of.t, RULER * (of.key - rest)), 19), 0.0, 1.1 * _REGULATED["key_dip"])
    v = np.gradient(x, H)
    settle = round(_SETTLE / H)
    x, v, a = (np.pad(each, (settle, 0), mode="constant") for each in (x, v, np.gradient(v, H)))
    run = move("piano_multibody", x, v, None, a, **_REGULATED).after(settle)
    measured = np.interp(np.interp(t, of.t, (of.hammer - low) / (_STRING - low)), *by.hammer)
    return t, measured, _share(run, _REGULATED["string_angle"]), run


def _compare(study: Study) -> None:
    for name in strokes():
        if name == REPEATED:
            continue
        t, measured, model, run = played(name)
        off = model - measured
        rms = float(np.sqrt((off**2).mean()))
        peaks = [float(t[int(each.argmax())]) for each in (measured, model)]
        up = t <= peaks[0]
        before = 100.0 * float(np.sqrt((off[up] ** 2).mean()))
        study.row(
            f"{name}: hammer, rms of its travel",
            f"{100 * rms:.1f} % (until its peak {before:.1f} %)",
            "5 %",
            rms <= NEAR,
        )
        notes = 0 if name == "slow" else 1
        study.row(f"{name}: notes", f"{len(run.strikes)}", f"{notes}", len(run.strikes) == notes)
        if notes:
            late = peaks[1] - peaks[0]
            study.row(f"{name}: the hammer's peak is late by", f"{1e3 * late:.1f} ms", "5 ms", abs(late) <= LATE)
        lines = [Series("measured", t[::4], measured[::4]), Series("model", t[::4], model[::4])]
        study.pictures.append((f"Hammer, share of its travel, {name}", lines, "s"))


def _repeated(study: Study) -> None:
    """As many notes as the measured hammer had, and when."""
    t, measured, model, run = played(REPEATED)
    at = t[np.flatnonzero(np.diff((measured > STRUCK).astype(int)) > 0)]
    at = at[np.diff(at, prepend=-1.0) > APART]
    notes = [when for when, _ in run.strikes]
    apart = np.diff(at)
    study.row(f"strokes {1.0 / apart.max():.1f} to {1.0 / apart.min():.1f} a second: notes", f"{len(notes)}",
              f"{len(at)}", len(notes) == len(at))  # fmt: skip
    if len(notes) == len(at):
        late = np.subtract(notes, at)
        study.row("they are late by", f"{1e3 * late.min():.1f} to {1e3 * late.max():.1f} ms", "15 ms",
                  np.abs(late).max() <= 15e-3)  # fmt: skip
    lines = [Series("measured", t[::4], measured[::4]), Series("model", t[::4], model[::4])]
    study.pictures.append(("Hammer, share of its travel, repeated", lines, "s"))


def _escapement(study: Study) -> None:
    by, dip = fitted(), _REGULATED["key_dip"]
    text = f"{1e3 * by.let_off:.2f} mm of {1e3 * dip:.1f}, the action {1e3 * by.at:.2f} mm"
    near = abs(by.let_off - by.at) <= PLACE * dip
    study.row("the hammer is highest in the slow stroke at", text, "5 % of the dip", near)


STUDIES: Studies = {
    "hammer": ("Measured strokes, the hammer beside the measured one", _compare),
    "repeated": ("Measured strokes one after the other", _repeated),
    "escapement": ("Escapement of the slow stroke", _escapement),
}
