"""Figures of a twin experiment: rows beside what is promised, as a report."""

from typing import Any

import numpy as np

from tandem.estimation.satellites import Reception
from tandem.machines.observer.studies.twin import Outcome, Setup, consistency, counts
from tandem.reports.html.chart import Series, curves
from tandem.reports.report import Cell, Part, Report, Section, Table, promised

HEADINGS = ("quantity", "unit", "all", "without outage", "outage", "at its end", "promised", "verdict")
_BANDS = (("upper", "high"), ("lower", "low"))
_PARTS = ("all", "without outage", "outage")


def _root(values: list[float] | None) -> float | None:
    return float(np.sqrt(np.mean(np.square(values)))) if values else None


def figures(setup: Setup, outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Everything that was found, as numbers."""
    found: dict[str, Any] = {}
    for form, outcome in outcomes.items():
        watched = {}
        for name, how in setup.study.watch.items():
            parts = {part: _root(outcome.rms.get(name, {}).get(part)) for part in _PARTS}
            outside = parts["without outage"]
            watched[name] = {
                "unit": how.unit, **parts, "at_outage_end": _root(outcome.at_outage_end.get(name)),
                "worst_run": max(outcome.rms[name]["all"]), "limit": how.limit or None,
                "holds": None if not how.limit or outside is None else bool(outside <= how.limit),
            }  # fmt: skip
        left = np.array(outcome.quantities)
        found[form] = {
            "runs": len(outcome.step_us), "step_us": float(np.median(outcome.step_us)), "watched": watched,
            "nees": consistency(setup, outcome), "sensors": counts(setup, outcome),
            "quantities": {
                name: {"true": float(setup.quantities[k]), "rms_error_at_end": _root(left[:, k].tolist()),
                       "worst_at_end": float(np.abs(left[:, k]).max())}
                for k, name in enumerate(setup.study.filter.estimated)
            },
            "receptions": {name: _reception(one) for name, one in outcome.receptions.items()},
        }  # fmt: skip
    return found


def _reception(one: Reception) -> dict[str, float]:
    """Of the first run."""
    there = ~np.isnan(one.read[:, 0])
    return {
        "satellites_least": int(one.satellites.min()), "satellites_mean": float(one.satellites.mean()),
        "satellites_most": int(one.satellites.max()), "positions_share": float(there.mean()),
        "dilution_worst": float(one.dilution[there, :2].max()) if there.any() else float("nan"),
    }  # fmt: skip


def _received(figures: dict[str, Any]) -> list[str]:
    return [
        f"{name}, first run: {r['satellites_least']} to {r['satellites_most']} satellites, on average"
        f" {r['satellites_mean']:.1f}; a position {100 * r['positions_share']:.0f} % of the time, dilution of an axis"
        f" up to {r['dilution_worst']:.1f}"
        for name, r in figures["receptions"].items()
    ]


def _reception_section(name: str, one: Reception) -> Section:
    path = [
        Series("true", one.antennas[:, 0], one.antennas[:, 1]),
        Series("received", one.read[:, 0], one.read[:, 1]),
    ]
    pictures = [
        curves("satellites seen over time, s", [Series("satellites", one.seconds, one.satellites.astype(float))]),
        curves("dilution of precision over time, s", [
            Series(axis, one.seconds, one.dilution[:, k]) for k, axis in enumerate(("east", "north"))
        ]),
        curves("north over east, m", path, x_label="m"),
    ]  # fmt: skip
    return Section(f"{name}: satellites and path", pictures, "The first run.")


def _headline(found: dict[str, Any]) -> str:
    first = next(iter(found))
    return f"{first}: {promised([(name, '', '', row['holds']) for name, row in found[first]['watched'].items()])}"


def _rows(figures: dict[str, Any]) -> list[tuple[Cell, ...]]:
    keys = (*_PARTS, "at_outage_end", "limit")
    return [
        (name, row["unit"], *(row[key] for key in keys), "" if row["holds"] is None else row["holds"])
        for name, row in figures["watched"].items()
    ]


def _sensor_rows(figures: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (name, *(f"{row[k]:.0f}" for k in ("used", "gated", "clipped", "late", "too_old")), f"{row['nis']:.3f}")
        for name, row in figures["sensors"].items()
    ]


SENSOR_HEADINGS = ("readings", "used", "gated", "out of range", "late", "too old", "mean NIS")


def _consistent(figures: dict[str, Any]) -> str:
    n = figures["nees"]
    return (
        f"NEES of {n['states']} states, mean of {figures['runs']} runs: {n['mean']:.1f}; band {n['low']:.1f} to"
        f" {n['high']:.1f}: {100 * n['inside']:.0f} % of the time inside, {100 * n['below']:.0f} % below,"
        f" {100 * n['above']:.0f} % above"
    )


def _estimated(figures: dict[str, Any]) -> list[str]:
    return [
        f"{name}: true {row['true']:g}, error at the end {row['rms_error_at_end']:.3g}, worst {row['worst_at_end']:.3g}"
        for name, row in figures["quantities"].items()
    ]


def report(setup: Setup, outcomes: dict[str, Outcome], found: dict[str, Any]) -> Report:
    """The verdict is that of the first form: the others stand beside it."""
    sections = []
    for form, figures in found.items():
        mean = np.mean(outcomes[form].nees, axis=0)
        t = np.arange(len(mean)) * 20 * setup.h
        series = [
            Series("NEES, mean of all runs", t, mean),
            *(Series(f"{end} band", t, np.full(len(t), figures["nees"][low])) for end, low in _BANDS),
        ]
        parts: list[Part] = [Table(HEADINGS, _rows(figures))]
        if any(row["used"] for row in figures["sensors"].values()):
            parts.append(Table(SENSOR_HEADINGS, _sensor_rows(figures)))
        parts += [_consistent(figures), *_estimated(figures), *_received(figures)]
        parts.append(f"{figures['step_us']:.0f} us a step, late readings included")
        parts.append(curves("normalised error squared over time, s", series, logarithmic=True))
        sections.append(Section(f"{form}: root mean square errors", parts, key=form))
    first = next(iter(found))
    sections += [_reception_section(name, one) for name, one in outcomes[first].receptions.items()]
    broken = any(row["holds"] is False for row in found[first]["watched"].values())
    return Report(f"tandem observe {setup.study.name}", _headline(found), found, sections, code=int(broken))
