"""Stabilisation of constraints, scheme by scheme: `python -m verify stabilisation`.

The slider-crank of the paper on simulation quality (C. R. Mécanique 2011), left alone, by every `stabilisation` of a
mechanism file: how far its loop opens, how far the slider is from its true place (a solution in one freedom), how far
the energy, and what a step costs. Promised: projection and I3AL keep the loop closed, Baumgarte's terms hold it to a
tenth of the drift without them. The linear-implicit scheme as published drifts; where every step takes back what is
open (the setting `stabilisation`), its drift falls with the square of the step.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tandem.multibody.natural.api import Scheme, Settings, run
from tandem.multibody.natural.settings import STABILISATIONS
from tandem.reports.report import Report, Section, Table
from verify.measure import Result, at_least, at_most, reported
from verify.multibody import problems as catalogue
from verify.multibody.trial import Formulation, begin, seconds_of

SECONDS, STEP = 10.0, 5e-3
CLOSED_M = 1e-8  # what is left by a scheme that closes the loop after every step
SHARE = 0.1  # of the drift without terms, with Baumgarte's
ORDER = 1.7  # of the drift of the linear-implicit scheme that takes it back, expected 2
TAKEN_BACK = "linear-implicit, taken back"
PICTURE = {name: Settings(scheme=scheme) for name, scheme in STABILISATIONS.items()} | {
    TAKEN_BACK: Settings(scheme=Scheme.LINEAR_IMPLICIT, stabilisation=1.0)
}


def stabilisation(seconds: float, h: float = 5e-3) -> dict[str, Any]:
    """How far the slider is from where the crank's angle would have it, and from its true place; a curve a formulation.

    The first is the constraint error as the paper shows it, the second contains the error of the motion too.
    """
    problem = catalogue.slider_crank()
    crank, conrod = catalogue.SLIDER_CRANK
    steps = round(seconds / h)
    every = max(1, steps // 200)
    instants_s = h * every * np.arange(steps // every + 1)
    truth = problem.reference(instants_s)
    out: dict[str, Any] = {"h": h, "seconds": seconds, "t": instants_s.tolist(), "curves": []}
    for name, settings in PICTURE.items():
        record = run(begin(problem, settings, h), seconds, h, every=every, strict=False)
        pin, place = record["pin"], record["slider"]
        angle = np.arctan2(pin[:, 1], pin[:, 0])
        reach = crank * np.cos(angle) + np.sqrt(conrod**2 - (crank * np.sin(angle)) ** 2)
        open_by, wrong = np.full(len(truth), np.nan), np.full(len(truth), np.nan)
        open_by[: len(place)] = np.hypot(place[:, 0] - reach, place[:, 1])
        wrong[: len(place)] = np.linalg.norm(place - truth[: len(place)], axis=1)
        out["curves"].append({"label": name, "open_by": open_by.tolist(), "error": wrong.tolist()})
    return out


def _table(picture: dict[str, Any]) -> Table:
    problem, h = catalogue.slider_crank(), picture["h"]
    rows = []
    for curve in picture["curves"]:
        settings = PICTURE[curve["label"]]
        cost = seconds_of(problem, Formulation(curve["label"], settings, (0, 1), 0.0), h) / round(problem.seconds / h)
        drift = np.array(curve["open_by"])
        half = len(drift) // 2
        found = (np.nanmax(drift[:half]), np.nanmax(drift[half:]), np.nanmax(curve["error"]))
        rows.append((curve["label"], *(f"{value:.1e}" for value in found), f"{1e6 * cost:.1f}"))
    seconds = picture["seconds"]
    heads = ("stabilisation", f"loop open, first {seconds / 2:g} s, m", f"to {seconds:g} s, m", "error, m", "µs/step")
    return Table(heads, rows)


def promise() -> Iterator[Result]:
    picture, finer = stabilisation(SECONDS, STEP), stabilisation(SECONDS, STEP / 2)
    yield reported(Report(
        "stabilisation", f"A slider-crank, steps of {1e3 * STEP:g} ms.", picture,
        [Section("Drift and cost, side by side", [_table(picture)])],
    ))  # fmt: skip
    open_by, half = ({c["label"]: float(np.nanmax(c["open_by"])) for c in p["curves"]} for p in (picture, finer))
    for name in ("projection", "i3al"):
        yield at_most(f"{name}: the loop opens by", open_by[name], CLOSED_M, "m")
    yield at_most("baumgarte: drift, of that without", open_by["baumgarte"] / open_by["none"], SHARE)
    order = math.log2(open_by[TAKEN_BACK] / half[TAKEN_BACK])
    yield at_least(f"{TAKEN_BACK}: order of the drift", order, ORDER)
