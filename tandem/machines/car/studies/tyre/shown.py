"""Tables at the terminal, and the page: residuals, intervals, curves over the rows."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tandem.machines.car.studies.tyre.fit import Fitted, forces, opened
from tandem.machines.car.studies.tyre.rows import Rows
from tandem.machines.car.tyres.many import FY
from tandem.machines.car.tyres.tir import Tir, tyre_vector
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.page import document
from tandem.reports.html.sections import section, table
from tandem.reports.html.words import Raw, e

_WORDS = {"fy": "lateral force", "fx": "longitudinal force", "mz": "aligning moment", "mx": "overturning moment"}
_OF = {"fz": ("load, N", 1.0), "pressure": ("pressure, kPa", 1e-3), "camber": ("camber, deg", 180.0 / np.pi)}
_FIGURES = (
    ("load, N", "load", ".0f"), ("friction along", "friction_x", ".3f"), ("across", "friction_y", ".3f"),
    ("slip stiffness / load along", "stiffness_x", ".2f"), ("across", "stiffness_y", ".2f"),
    ("relaxation along, m", "relaxation_x", ".3f"), ("across, m", "relaxation_y", ".3f"),
    ("rolling radius, m", "radius", ".4f"),
)  # fmt: skip


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def print_tyres(console: Console, found: Sequence[Mapping[str, Any]]) -> None:
    for tyre in found:
        at = f" at {tyre['pressure'] / 1e3:.0f} kPa" if tyre["pressure"] else ""
        console.print(f"{tyre['name']}: {tyre['version']}, of the {tyre['side']} side{at}", markup=False)
        for remark in tyre["remarks"]:
            console.print(f"  {remark.removeprefix(tyre['name'] + ': ')}", markup=False)
    heads = ("tyre", *(heading for heading, _, _ in _FIGURES))
    rows = [
        [str(k + 1), *(_cell(row[key], form) for _, key, form in _FIGURES)]
        for k, tyre in enumerate(found)
        for row in tyre["at"]
    ]
    _print(console, "At half, the whole and one and a half of the nominal load", heads, rows)


def print_against(console: Console, names: Sequence[str], found: Sequence[Mapping[str, Any]]) -> None:
    for name in dict.fromkeys(key for each in found for key in each):
        rows = [["all rows", "", *(f"{100 * each[name]['left']:.2f}" for each in found)]]
        for of, bins in found[0][name]["bins"].items():
            what, scale = _OF[of]
            for k, seen in enumerate(bins):
                shares = [f"{100 * each[name]['bins'][of][k]['left']:.2f}" for each in found]
                rows.append([what, f"{scale * seen['from']:.4g} to {scale * seen['to']:.4g}", *shares])
        _print(console, f"{_WORDS[name]}: left of the rms, %", ("", "", *names), rows)


def print_fit(console: Console, fitted: Fitted, remarks: Sequence[str]) -> None:
    for remark in (*remarks, *fitted.remarks):
        console.print(f"  {remark}", markup=False)
    rows = [[s["title"], str(s["rows"]), f"{100 * s['used']:.2f}", f"{100 * s['unused']:.2f}"] for s in fitted.stages]
    _print(console, f"MF {fitted.version}", ("", "rows used", "left of the rms, %", "of unused rows, %"), rows)


def _print(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = Table(*headings, title=title, title_justify="left", box=None)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)


def page(fitted: Fitted, remarks: Sequence[str], against: Mapping[str, Any], tir: Tir, rows: Rows) -> str:
    """Of a fit."""
    parts = [f'<header class="one"><h1>Tyre fit</h1><p class="headline">{e(headline(fitted))}</p></header>']
    told = Raw("".join(f"<p>{e(remark)}</p>" for remark in (*remarks, *fitted.remarks)))
    parts.append(section("rows", "Rows", "How they were taken, and what they do not tell.", told))
    for name, seen in against.items():
        cells = [
            [_OF[of][0], f"{_OF[of][1] * b['from']:.4g}", f"{_OF[of][1] * b['to']:.4g}", str(b["rows"]),
             f"{b['rms']:.4g}", f"{100 * b['left']:.2f}"]
            for of, bins in seen["bins"].items() for b in bins
        ]  # fmt: skip
        lead = f"{100 * seen['left']:.2f} % of the rms is left over all rows."
        heads = ("by", "from", "to", "rows", "rms left", "% of the rms")
        parts.append(section(name, f"Residuals: {_WORDS[name]}", lead, table(heads, cells)))
    parts.append(
        section("curves", "Lateral force over slip", "Medians of the rows, and the formula.", *_pictures(tir, rows))
    )
    cells = [[key, f"{fitted.values[key]:.5g}", f"{half:.2g}"] for key, half in fitted.intervals.items()]
    lead = "Half of 95 %, with blocks of rows as what is independent."
    parts.append(section("intervals", "Coefficients", lead, table(("", "value", "±"), cells)))
    return document("Tyre fit", parts)


def headline(fitted: Fitted) -> str:
    first = fitted.stages[0]
    return (
        f"MF {fitted.version}: of the {first['title']} {100 * first['unused']:.2f} % of the rms is left in rows not"
        f" used, {100 * first['used']:.2f} % in those that were."
    )


def _pictures(tir: Tir, rows: Rows) -> list[str]:
    """Fy over slip angle in four bands of load."""
    load, alpha = rows.columns["fz"], rows.columns["alpha"]
    found = forces(opened(tyre_vector(tir, lacking=True), rows), rows)[:, FY]
    slips, pictures = np.linspace(alpha.min(), alpha.max(), 41), list[str]()
    edges = np.quantile(load, np.linspace(0.0, 1.0, 5))
    for low, high in itertools.pairwise(edges):
        band = (load >= low) & (load <= high)
        bins = np.digitize(alpha[band], slips)
        middles = [k for k in range(1, len(slips)) if (bins == k).sum() > 10]
        x = np.array([np.degrees(slips[k]) for k in middles])
        seen, formula = (
            np.array([np.median(y[band][bins == k]) for k in middles]) for y in (rows.columns["fy"], found)
        )
        title = f"{low:.0f} to {high:.0f} N"
        pictures.append(curves(title, [Series("rows", x, seen), Series("formula", x, formula)], x_label="deg"))
    return pictures
