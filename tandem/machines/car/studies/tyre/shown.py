"""The reports of tyres: figures beside each other; of a fit residuals, intervals, curves over the rows."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tandem.machines.car.studies.tyre.fit import Fitted, forces, opened
from tandem.machines.car.studies.tyre.rows import Rows
from tandem.machines.car.tyres.many import FY
from tandem.machines.car.tyres.tir import Tir, tyre_vector
from tandem.reports.html.chart import Series, curves
from tandem.reports.html.markup import Markup
from tandem.reports.report import Report, Section, Table

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


def tyres(found: Sequence[Mapping[str, Any]]) -> list[Section]:
    lines = []
    for tyre in found:
        at = f" at {tyre['pressure'] / 1e3:.0f} kPa" if tyre["pressure"] else ""
        lines.append(f"{tyre['name']}: {tyre['version']}, of the {tyre['side']} side{at}")
        lines += [f"  {remark.removeprefix(tyre['name'] + ': ')}" for remark in tyre["remarks"]]
    rows = [
        [str(k + 1), *(_cell(row[key], form) for _, key, form in _FIGURES)]
        for k, tyre in enumerate(found)
        for row in tyre["at"]
    ]
    table = Table(("tyre", *(heading for heading, _, _ in _FIGURES)), rows)
    return [Section("", lines), Section("At half, the whole and one and a half of the nominal load", [table])]


def report_tyres(command: str, found: Sequence[Mapping[str, Any]], data: Any, more: Sequence[Section] = ()) -> Report:
    names = " and ".join(tyre["name"] for tyre in found)
    remarks = sum(len(tyre["remarks"]) for tyre in found)
    sentence = f"{names}: {f'{remarks} remarks' if remarks else 'nothing that changes forces is left out'}."
    return Report(f"tandem tyre {command}", sentence, data, [*tyres(found), *more])


def beside_rows(names: Sequence[str], found: Sequence[Mapping[str, Any]], remarks: Sequence[str] = ()) -> list[Section]:
    """What each tyre leaves of the rows of a rig."""
    sections = [Section("", [f"  {remark}" for remark in remarks])]
    for name in dict.fromkeys(key for each in found for key in each):
        rows = [["all rows", "", *(f"{100 * each[name]['left']:.2f}" for each in found)]]
        for of, bins in found[0][name]["bins"].items():
            what, scale = _OF[of]
            for k, seen in enumerate(bins):
                shares = [f"{100 * each[name]['bins'][of][k]['left']:.2f}" for each in found]
                rows.append([what, f"{scale * seen['from']:.4g} to {scale * seen['to']:.4g}", *shares])
        sections.append(Section(f"{_WORDS[name]}: left of the rms, %", [Table(("", "", *names), rows)], on="terminal"))
    return sections


def report_fit(fitted: Fitted, measured: Rows, left: Mapping[str, Any], tir: Tir, name: str) -> Report:
    stages = [[s["title"], s["rows"], f"{100 * s['used']:.2f}", f"{100 * s['unused']:.2f}"] for s in fitted.stages]
    table = Table(("", "rows used", "left of the rms, %", "of unused rows, %"), stages)
    sections = [Section(f"MF {fitted.version}", [table], key="fit"), *beside_rows([name], [left])]
    for key, seen in left.items():
        cells = [
            [_OF[of][0], f"{_OF[of][1] * b['from']:.4g}", f"{_OF[of][1] * b['to']:.4g}", b["rows"], b["rms"],
             f"{100 * b['left']:.2f}"]
            for of, bins in seen["bins"].items() for b in bins
        ]  # fmt: skip
        lead = f"{100 * seen['left']:.2f} % of the rms is left over all rows."
        heads = ("by", "from", "to", "rows", "rms left", "% of the rms")
        sections.append(Section(f"Residuals: {_WORDS[key]}", [Table(heads, cells)], lead, "page", key))
    pictures = _pictures(tir, measured)
    sections.append(Section("Lateral force over slip", pictures, "Medians of the rows, and the formula.", key="curves"))
    halves = [[key, f"{fitted.values[key]:.5g}", f"{half:.2g}"] for key, half in fitted.intervals.items()]
    lead = "Half of 95 %, with blocks of rows as what is independent."
    sections.append(Section("Coefficients", [Table(("", "value", "±"), halves)], lead, "page", "intervals"))
    first, remarks = fitted.stages[0], [*measured.remarks, *fitted.remarks]
    headline = (
        f"MF {fitted.version}: of the {first['title']} {100 * first['unused']:.2f} % of the rms is left in rows not"
        f" used, {100 * first['used']:.2f} % in those that were."
    )
    data = {
        "version": fitted.version, "stages": list(fitted.stages), "values": dict(fitted.values), "left": left,
        "intervals": dict(fitted.intervals), "remarks": remarks,
    }  # fmt: skip
    return Report("tandem tyre fit", headline, data, sections, remarks)


def _pictures(tir: Tir, rows: Rows) -> list[Markup]:
    """Fy over slip angle in four bands of load."""
    load, alpha = rows.columns["fz"], rows.columns["alpha"]
    found = forces(opened(tyre_vector(tir, lacking=True), rows), rows)[:, FY]
    slips, pictures = np.linspace(alpha.min(), alpha.max(), 41), list[Markup]()
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
