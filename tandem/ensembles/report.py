"""The report of a sweep: how runs ended, figures and what moves them, parallel coordinates, scatter pictures."""

import numpy as np

from tandem.ensembles.sweep import Swept
from tandem.reports.html.scatter import parallel, scatter, side_by_side
from tandem.reports.html.words import Raw
from tandem.reports.report import Report, Section, Table

_HEADINGS = ("figure", "unit", "runs", "least", "median", "largest", "moved most by", "rank correlation")
_MOST_AXES = 9
_MOST_PICTURES = 24
_MOST_FAILURES = 20


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, of the rows where both are finite; 0 where one of them does not vary."""
    ok = np.isfinite(a) & np.isfinite(b)
    if ok.sum() < 3:
        return 0.0
    x, y = _ranks(a[ok]), _ranks(b[ok])
    if x.std() == 0.0 or y.std() == 0.0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: np.ndarray = (last - 0.5 * (counts - 1))[inverse]
    return found


def moved_by(swept: Swept, figure: str) -> list[tuple[str, float]]:
    """The parameters by how much they move a figure, most first."""
    values = swept.results.figures[figure]
    pairs = [(name, rank_correlation(swept.table[name], values)) for name in swept.names]
    return sorted(pairs, key=lambda pair: -abs(pair[1]))


def figure_rows(swept: Swept) -> list[list[str]]:
    rows = []
    for name, values in swept.results.figures.items():
        finite = values[np.isfinite(values)]
        first = next(iter(moved_by(swept, name)), ("", 0.0))
        numbers = [f"{v:.5g}" for v in (finite.min(), np.median(finite), finite.max())] if len(finite) else ["–"] * 3
        by = [first[0], f"{first[1]:+.2f}"] if abs(first[1]) > 0 else ["–", ""]
        rows.append([name, swept.results.units.get(name, ""), str(len(finite)), *numbers, *by])
    return rows


def _headline(swept: Swept) -> str:
    counts = swept.results.counts()
    failed = {status: n for status, n in counts.items() if status != "ok"}
    ends = ", ".join(f"{n} {status}" for status, n in failed.items()) or "none failed"
    return f"{len(swept.results.keys)} runs of {swept.machine.name}: {counts.get('ok', 0)} ok, {ends}."


def report(swept: Swept) -> Report:
    figures, errors = swept.results.figures, swept.results.errors
    found = [Section("Figures of merit", [Table(_HEADINGS, figure_rows(swept))], key="figures")]
    varied = [name for name in swept.names if np.ptp(swept.table[name]) > 0]
    columns = {name: swept.table[name] for name in varied} | figures
    chosen = dict(list(columns.items())[: _MOST_AXES - 1])
    last = next(reversed(figures), None)
    if last is not None and len(columns) > 1:
        chosen[last] = columns[last]
        lead = f"A line a run, coloured by {last}, from blue (least) to orange (largest)."
        found.append(Section("Parallel coordinates", [parallel("parameters and figures", chosen, last)], lead))
    if varied and figures:
        lead = f"Each of {len(figures)} figures over the parameters of {len(varied)} that move it most."
        found.append(Section("What moves what", [_scatters(swept)], lead, key="scatter"))
    if errors:
        rows = [(str(k), swept.results.status[k], why) for k, why in list(errors.items())[:_MOST_FAILURES]]
        lead = f"{len(errors)} runs came to nothing; the first {len(rows)}."
        found.append(Section("Runs that failed", [Table(("run", "how", "why"), rows)], lead, "page"))
    return Report(f"tandem sweep {swept.study.name}", _headline(swept), swept.summary(), found)


def _scatters(swept: Swept) -> Raw:
    each = max(1, min(2, _MOST_PICTURES // max(len(swept.results.figures), 1)))
    units, pictures = swept.table.units, []
    for figure, values in list(swept.results.figures.items())[:_MOST_PICTURES]:
        title = f"{figure}, {swept.results.units.get(figure, '')}"
        for name, _ in moved_by(swept, figure)[:each]:
            pictures.append(scatter(title, f"{name}, {units[name]}", swept.table[name], values))
    return side_by_side(pictures)
