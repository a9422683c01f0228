"""Figures of a twin experiment: rows beside what is promised, tables for the terminal, sections of a page."""

from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tandem.estimation.satellites import Reception
from tandem.machines.observer.studies.twin import Outcome, Setup, consistency, counts
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.sections import section, table

HEADINGS = ("", "unit", "all", "without outage", "outage", "at its end", "promised", "")
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


def _reception_section(name: str, one: Reception) -> str:
    path = [
        Series("true", one.antennas[:, 0], one.antennas[:, 1]),
        Series("received", one.read[:, 0], one.read[:, 1]),
    ]
    return section(
        f"reception_{name}", f"{name}: satellites and path", "The first run.",
        curves("satellites seen over time, s", [Series("satellites", one.seconds, one.satellites.astype(float))]),
        curves("dilution of precision over time, s", [
            Series(axis, one.seconds, one.dilution[:, k]) for k, axis in enumerate(("east", "north"))
        ]),
        curves("north over east, m", path, x_label="m"),
    )  # fmt: skip


def headline(found: dict[str, Any]) -> str:
    first = next(iter(found))
    promised = [(name, row) for name, row in found[first]["watched"].items() if row["holds"] is not None]
    broken = [name for name, row in promised if not row["holds"]]
    if broken:
        return f"{first}: {len(broken)} of {len(promised)} promises do not hold: {', '.join(broken)}"
    return f"{first}: all {len(promised)} promises hold." if promised else "Nothing of this is promised."


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _rows(figures: dict[str, Any]) -> list[tuple[str, ...]]:
    marks = {True: "holds", False: "DOES NOT HOLD", None: ""}
    return [
        (name, row["unit"], *(_text(row[part]) for part in _PARTS), _text(row["at_outage_end"]), _text(row["limit"]),
         marks[row["holds"]])
        for name, row in figures["watched"].items()
    ]  # fmt: skip


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


def print_results(console: Console, found: dict[str, Any]) -> None:
    for form, figures in found.items():
        shown = Table(title=f"{form}: root mean square errors", title_justify="left", box=SIMPLE_HEAD)
        for k, heading in enumerate(HEADINGS):
            shown.add_column(heading, justify="left" if k < 2 else "right", no_wrap=True)
        for row in _rows(figures):
            shown.add_row(*row)
        console.print(shown)
        if any(row["used"] for row in figures["sensors"].values()):
            sensors = Table(box=SIMPLE_HEAD)
            for k, heading in enumerate(SENSOR_HEADINGS):
                sensors.add_column(heading, justify="left" if k == 0 else "right", no_wrap=True)
            for row in _sensor_rows(figures):
                sensors.add_row(*row)
            console.print(sensors)
        lines = [
            _consistent(figures),
            *_estimated(figures),
            *_received(figures),
            f"{figures['step_us']:.0f} us a step, late readings included",
        ]
        for line in lines:
            console.print(line, markup=False)
    console.print(headline(found), markup=False)


def page_sections(setup: Setup, outcomes: dict[str, Outcome], found: dict[str, Any]) -> list[str]:
    first = next(iter(outcomes.values()))
    pieces = [_reception_section(name, one) for name, one in first.receptions.items()]
    for form, figures in found.items():
        text = "; ".join([_consistent(figures), *_estimated(figures)])
        mean = np.mean(outcomes[form].nees, axis=0)
        t = np.arange(len(mean)) * 20 * setup.h
        n = figures["nees"]
        series = [
            Series("NEES, mean of all runs", t, mean), Series("upper band", t, np.full(len(t), n["high"])),
            Series("lower band", t, np.full(len(t), n["low"])),
        ]  # fmt: skip
        pieces.append(
            section(
                form, form, text, table(HEADINGS, _rows(figures), "figures"),
                table(SENSOR_HEADINGS, _sensor_rows(figures), "figures"),
                curves("normalised error squared over time, s", series, logarithmic=True),
            )
        )  # fmt: skip
    return pieces
