"""The sections of the page, one function each: from all runs to tables and pictures.

A section is always there; where a run lacks the data for a picture, it says so in its place. Runs that are compared
share their scales.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tandem.reports.html.figures import WORST, RunData, age, cost, figure, hops, hops_us, lateness, period_ns, worst
from tandem.reports.html.markup import escape
from tandem.reports.html.style import AGE_HOPS, BAD, GREY, HOPS
from tandem.reports.html.svg import (
    HALF,
    LEFT,
    RIGHT,
    WIDE,
    Bar,
    height_scale,
    lanes,
    log_scale,
    over_time,
    ranges,
    rect,
    stacked,
    time_ticks,
)
from tandem.reports.html.words import Raw, e, format_count, format_many, format_ns, format_us
from tandem.reports.report import Section
from tandem.reports.round_trip import ROUND_TRIP


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], kind: str = "") -> Raw:
    head = "".join(f"<th>{e(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{e(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return Raw(
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def section(key: str, title: str, lead: str, *content: str) -> Section:
    return Section(title, [escape(part) for part in content if part], lead, "page", key)


def left_out(what: str, run: RunData, *fields: str) -> Raw:
    there = set(run.steps.dtype.names or ())
    missing = [field for field in fields if field not in there]
    why = f"the data lack {', '.join(missing)}" if missing else "no step was recorded"
    return Raw(f'<p class="absent">{e(run.label)}: {e(what)} left out, {e(why)}.</p>')


def _pairs(*pictures: str) -> Raw:
    return Raw('<div class="pairs">' + "".join(f"<div>{picture}</div>" for picture in pictures) + "</div>")


def _swatch(colour: str, text: str) -> Raw:
    return Raw(f'<span class="swatch" style="background:{colour}"></span>{e(text)}')


_STAMPS = ("input_t_ns", "input_pushed_ns", "input_sent_ns", "input_received_ns", "taken_ns")


def overview(runs: list[RunData]) -> Section:
    rows = []
    for run in runs:
        figures = run.figures
        ages = figure(run, "age_us", age(run.steps)) or {}
        late = figure(run, "lateness_us", lateness(run.steps)) or {}
        spent = figure(run, "step_us", cost(run.steps)) or {}
        cells = [format_us(ages.get(key)) for key in ("p50", "p99", "p999", "max")]
        cells += [
            format_us(late.get("p99")),
            format_us(late.get("max")),
            format_us(spent.get("p50")),
            format_us(spent.get("max")),
        ]
        cells += [format_count(figures.get(key, "–")) for key in ("deadline_misses", "skipped", "stale_steps")]
        lost = (figures.get("balance") or {}).get("lost", "–")
        rows.append([run.label, format_count(figures.get("steps", len(run.steps))), *cells, format_count(lost)])
    headings = ["run", "steps", "age p50", "p99", "p99.9", "max", "lateness p99", "max", "step cost p50", "max"]
    return section("", "", "", table([*headings, "missed", "skipped", "stale", "lost"], rows, "figures"))


def where_section(runs: list[RunData]) -> Section:
    known = [(run, hops_us(run)) for run in runs]
    absent = [left_out("where the age comes from", run, *_STAMPS) for run, each in known if "wait" not in each]
    bars: list[Bar] = []
    for run, each in known:
        if "wait" not in each:
            continue
        parts = []
        for name, (colour, ink, meaning) in HOPS.items():
            if name in each:
                tip = f"{name}, {meaning}: median {format_us(each[name]['p50'])}, p99 {format_us(each[name]['p99'])}"
                parts.append((name, 1e3 * each[name]["p50"], colour, ink, tip))
        ages = figure(run, "age_us", age(run.steps))
        bars.append((run.label, parts, f"age {format_us(ages['p50'])}" if ages else ""))
    content: list[str] = list(absent)
    if bars:
        content.append(stacked(bars, format_ns, "where the age comes from", "wait"))
        rows = []
        for name, (colour, _, meaning) in HOPS.items():
            first: tuple[Any, ...] = (_swatch(colour, name), meaning)
            for run, each in known:
                if name in each:
                    cells = [format_us(each[name][key]) for key in ("p50", "p90", "p99", "p999", "max")]
                    rows.append([*first, run.label, *cells])
                    first = ("", "")
        content.append(table(["hop", "from … to", "run", "p50", "p90", "p99", "p99.9", "max"], rows, "hops"))
    lead = (
        "The median of every hop of the input, from sampling until a step takes it (▼); the step's own time follows."
        " In every single step the hops sum to the age to the nanosecond; medians need not."
    )
    return section("where", "Where the age comes from", lead, *content)


def _curves(
    runs: list[RunData],
    of: Callable[[np.ndarray], np.ndarray | None],
    colour: str,
    what: str,
    fields: tuple[str, ...],
    spots: bool = False,
) -> list[str]:
    """The same quantity of every run, all on one scale."""
    found = [(run, of(run.steps)) for run in runs]
    values = [v for _, v in found if v is not None]
    y = height_scale(values, 182, 28) if values else None
    out: list[str] = []
    for run, v in found:
        if v is None or y is None:
            out.append(left_out(f"{what} over time", run, *fields))
            continue
        label = f"{run.label}: {what}{' (logarithmic)' * y.logarithmic}"
        worst_here = worst(run) if spots else ()
        out.append(over_time(run, v, y, time_ticks(y), format_ns, colour, label, 204, spots=worst_here))
    return out


def age_section(runs: list[RunData]) -> Section:
    ages = _curves(runs, age, GREY, "age at use", ("input_age_ns",), spots=True)
    lead = "The median in the band from lowest to highest; what happened to single steps is marked."
    return section("age", "Age over time", lead, *ages)


def hops_section(runs: list[RunData]) -> Section:
    each = [(run, hops(run.steps)) for run in runs]
    every = [values for _, found in each for values in found.values()]
    every += [a for run in runs if (a := age(run.steps)) is not None]
    content: list[str] = [
        left_out("histograms of the hops", run, *_STAMPS) for run, found in each if "wait" not in found
    ]
    x = log_scale(every, LEFT, HALF - RIGHT)
    panels = []
    for name, (colour, _, meaning) in HOPS.items():
        entries = [(run.label, found[name]) for run, found in each if name in found]
        if entries:
            panels.append(
                lanes(f"{name}: {meaning}".replace(" (not part of the age)", ""), colour, entries, x, HALF, {})
            )
    entries = [(run.label, a) for run in runs if (a := age(run.steps)) is not None]
    if entries:
        panels.append(lanes("age at use: the first four together", GREY, entries, x, HALF, {}))
    lead = (
        "How many steps had which time. Both axes are logarithmic: a single slow step shows as well as thousands of"
        " quick ones."
    )
    return section("hops", "Every hop", lead, *content, _pairs(*panels) if panels else "")


def lateness_section(runs: list[RunData], bare: dict[str, Any]) -> Section:
    loop = bare.get("lateness_us") or {}
    known = bool(loop.get("n"))
    colour = HOPS["step"][0]
    rules = (
        {
            f"bare p50 {format_us(loop['p50'])}": 1e3 * loop["p50"],
            f"bare p99.9 {format_us(loop['p999'])}": 1e3 * loop["p999"],
        }
        if known
        else {}
    )
    content = _curves(runs, lateness, colour, "lateness", ("started_ns", "t_ns"))
    entries = [(run.label, late) for run in runs if (late := lateness(run.steps)) is not None]
    rows = [("bare sleeping loop", loop, GREY)] if known else []
    rows += [(run.label, row, colour) for run in runs if (row := figure(run, "lateness_us", lateness(run.steps)))]
    pictures: list[str] = []
    if entries:
        x = log_scale([v for _, v in entries] + [np.array(list(rules.values()))], LEFT, HALF - RIGHT)
        pictures.append(lanes("how late steps began", colour, entries, x, HALF, rules))
    if rows:
        pictures.append(ranges("beside the bare loop" if known else "in figures", rows, HALF))
    if pictures:
        content.append(_pairs(*pictures))
    lead = "From a step's planned to its real start" + (
        ", beside a loop that only sleeps, measured on this machine in the same session."
        if known
        else ". The bare loop was not measured with this run."
    )
    return section("lateness", "Lateness", lead, *content)


def cost_section(runs: list[RunData]) -> Section:
    sentences, entries, periods = [], [], set()
    content: list[str] = []
    for run in runs:
        costs, period = cost(run.steps), period_ns(run.steps)
        if costs is None:
            content.append(left_out("step cost", run, "started_ns", "pushed_ns"))
            continue
        entries.append((run.label, costs))
        spent = figure(run, "step_us", costs)
        if spent and period:
            periods.add(period)
            free = 1 - 1e3 * spent["max"] / period
            left = f"{free:.1%} of the period always stay free." if free > 0 else "that is more than there is."
            sentences.append(
                f"{run.label}: a step takes {format_us(spent['p50'])} of its {format_ns(period)} (median), at most"
                f" {format_us(spent['max'])}; {left}"
            )
    if entries:
        rules = {f"step period {format_ns(p)}": float(p) for p in sorted(periods)}
        x = log_scale([v for _, v in entries] + [np.array([1.2 * p]) for p in periods], LEFT, WIDE - RIGHT)
        content.append(lanes("what a step costs, against its period", HOPS["step"][0], entries, x, WIDE, rules))
    return section("cost", "Head-room", "\n".join(sentences) or "What a step costs is not known.", *content)


def _mini(row: dict[str, Any], most_us: float) -> Raw:
    """The hops of one step as a bar."""
    at, body = 0.0, []
    for name in AGE_HOPS:
        width = 150 * max(row["hops_us"][name], 0.0) / most_us if most_us > 0 else 0.0
        body.append(rect(at, 2, width, 12, HOPS[name][0], f"{name} {format_us(row['hops_us'][name])}"))
        at += width
    return Raw(f'<svg class="mini" viewBox="0 0 150 16" role="img" aria-label="hops">{"".join(body)}</svg>')


def _blocks_on(row: dict[str, Any]) -> str:
    on, usual = row.get("blocks_on"), row.get("blocks_on_usual")
    if on is None:
        return "–"
    if on == 0:
        return "the same block again"
    return f"{format_many(on - 1, 'block', 'blocks')} passed over" + (
        f" (usually {usual - 1})" if usual and on != usual else ""
    )


def worst_section(runs: list[RunData]) -> Section:
    content: list[str] = []
    for run in runs:
        rows = worst(run)
        if not rows:
            content.append(left_out("the worst steps", run, "input_age_ns"))
            continue
        cells = []
        for row in rows:
            bar: str = _mini(row, rows[0]["age_us"]) if "hops_us" in row else "–"
            name = row.get("largest_hop")
            hop: str = _swatch(HOPS[name][0], f"{name} {format_us(row['hops_us'][name])}") if name else "–"
            cells.append(
                [format_count(row["step"]), f"{row['at_s']:.3f} s", format_us(row["age_us"]),
                 format_us(row.get("lateness_us")),
                 bar, hop, _blocks_on(row), "; ".join(row["happened"]) or "nothing flagged"]
            )  # fmt: skip
        headings = ("step", "at", "age", "lateness", "its hops", "largest", "since the step before", "what happened")
        content += [Raw(f"<h3>{e(run.label)}</h3>") if len(runs) > 1 else "", table(headings, cells, "worst")]
    lead = "The steps that used the oldest data. A hop is named when it took far longer than it usually does."
    return section("worst", f"The worst {WORST} steps", lead, *content)


def balance_section(runs: list[RunData]) -> Section:
    bars, sentences = [], []
    for run in runs:
        count = run.figures.get("balance") or {}
        if not count:
            sentences.append(f"{run.label}: no balance was drawn up.")
            continue
        colours = {"used": ("#009e73", "#fff"), "superseded": ("#b9bec6", "#111"), "lost": (BAD, "#fff")}
        parts = [
            (k, float(count.get(k, 0)), *c, f"{k}: {format_count(count.get(k, 0))} blocks") for k, c in colours.items()
        ]
        bars.append((run.label, parts, f"{format_count(count.get('lost', 0))} lost"))
        closes = "closes" if count.get("closes") else "DOES NOT CLOSE"
        sentences.append(
            f"{run.label}: {format_count(count.get('produced', 0))} produced = {format_count(count.get('used', 0))}"
            f" used + {format_count(count.get('superseded', 0))} superseded + {format_count(count.get('lost', 0))}"
            f" lost; the balance {closes}."
        )
    picture = stacked(bars, lambda v: format_count(round(v)), "where the blocks went") if bars else ""
    return section("balance", "Where the blocks went", "\n".join(sentences), picture)


_EFFORT_COUNTS = {
    "handed_over": "efforts handed over",
    "steps_used": "steps used",
    "steps_superseded": "steps superseded by a newer one",
    "steps_skipped": "steps skipped on a change of ring",
    "steps_too_old": "steps that came too late, or of motion too old",
    "steps_invalid": "steps that were not finite",
    "zeroed": "watchdog trips: to zero for want of steps",
    "limited": "steps clipped to the limit",
    "slewed": "efforts limited by the slew",
    "active_steps": "steps in which the port was active",
    "damped_steps": "steps damped by the passivity controller",
    "lowered_steps": "steps lowered, made from motion older than limits hold for",
    "energy": "energy of the port at the end: put in minus given out",
    "least_energy": "its least energy",
}


def effort_sections(runs: list[RunData]) -> list[Section]:
    """Nothing where no run has efforts."""
    found = [(run, effort) for run in runs if (effort := run.figures.get("effort"))]
    if not found:
        return []
    hops, counts = [], []
    for name, meaning in ROUND_TRIP.items():
        for run, effort in found:
            row = (effort.get("round_trip_us") or {}).get(name) or {}
            known = row.get("n", 0) > 0
            cells = [format_us(row[key]) if known else "–" for key in ("p50", "p99", "p999", "max")]
            hops.append([meaning, run.label, format_count(row.get("n", 0)), *cells])
    for name, meaning in _EFFORT_COUNTS.items():
        cells = [_effort_cell(name, effort.get(name)) for _, effort in found]
        if any(cell != "–" for cell in cells):
            counts.append([meaning, *cells])
    lead = (
        "From a sample to the effort computed from it, handed to the device; the last five hops add up to it. Without a"
        " displacement in [source.effort] the energy of the port is not known."
    )
    tables = (
        table(["round trip", "run", "n", "p50", "p99", "p99.9", "max"], hops, "hops"),
        table(["", *(run.label for run, _ in found)], counts, "figures"),
    )
    return [section("efforts", "Efforts", lead, *tables)]


def _effort_cell(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return "–"
    return f"{value:.3g} J" if name.endswith("energy") else format_count(value)
