"""The instruments: what is done to the machine, what it does, how fresh that is; and a banner when something is not
right. Text and figures only, made as HTML and replaced in place some times a second.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sim_service import step_record
from sim_service.contract.display import Tile
from sim_service.contract.machine import Machine, Quantity
from sim_service.inputs.stages import STAGES, in_words, stage_of
from sync.config.input_rows import Affine, Row
from tandem.reports.html.markup import Markup, joined, markup
from tandem.view.history import SECONDS, Balance, Pace

SILENT_S = 0.3  # without a step
GREEN, RED, _AMBER, _BLUE, _QUIET = "#2f9e44", "#c92a2a", "#d9730d", "#1c6fd1", "rgba(128,128,128,.16)"
_FAINT = "opacity:.62"
RUNNING = "running"
LOST_S = 6.0  # without a word from the view
_LOST = markup("{{0%,99%{{visibility:hidden}}100%{{visibility:visible}}}}")


_GENERIC = 12  # figures of a machine that names none


def tiles(machine: Machine) -> tuple[tuple[Tile, ...], tuple[Tile, ...]]:
    """(inputs, with bars; outputs), as the machine has them shown; else its inputs, and the first of its outputs."""
    shown = machine.shown.display
    hands = shown.hands or tuple(_plain(q) for q in machine.inputs if not q.optional)
    return hands, shown.figures or tuple(_plain(q) for q in machine.outputs[:_GENERIC])


def _plain(q: Quantity) -> Tile:
    return Tile(q.name.replace("_", " "), q.name, "" if q.unit == "1" else q.unit, 1.0, 3)


def number(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return "–"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def duration(ns: float) -> str:
    return f"{ns * 1e-3:.0f} µs" if abs(ns) < 1e6 else f"{ns * 1e-6:.2f} ms" if abs(ns) < 1e9 else f"{ns * 1e-9:.1f} s"


# ---- the banner ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Health:
    """What the banner is made of."""

    silent_s: float | None  # since the newest step; None: there never was one
    step_s: float
    sim: bool
    daq: bool
    pace: Pace | None
    paused: bool = False
    slow: float = 1.0
    rows: tuple[str, ...] = ()  # of inputs
    warning: str = ""  # of the look ahead

    @property
    def status(self) -> int:
        return self.pace.status if self.pace is not None else 0

    @property
    def stages(self) -> str:
        """What became of stale inputs, in words."""
        return in_words(self.pace.stages, self.rows) if self.pace is not None else ""

    @property
    def still(self) -> bool:
        """No step, for longer than one may take."""
        return self.silent_s is not None and self.silent_s > max(SILENT_S, 3.0 * self.step_s * self.slow)

    @property
    def has_deadlines(self) -> bool:
        """Slow motion has no deadlines."""
        return self.slow <= 1.0

    @property
    def instead(self) -> str:
        """What the model does without a DAQ."""
        return "the model stands still" if self.still else self.stages or "the model goes on with the last block"

    @property
    def oldest(self) -> str:
        return duration(self.pace.age_most) if self.pace is not None else "?"

    @property
    def misses(self) -> int:
        return self.pace.misses if self.pace is not None else 0


_DIVERGED, _STALE = step_record.DIVERGED, step_record.STALE
_SKIPPED, _SLOWED = step_record.SKIPPED, step_record.SLOWED
# the worst first: when, in which colour, and in which words; the first that holds is shown
_TROUBLES: tuple[tuple[Callable[[Health], Any], str, str], ...] = (
    (lambda h: not h.sim and h.silent_s is None, _BLUE, "no run of this name yet: it is shown as soon as it begins"),
    (lambda h: not h.sim, RED, "simulator gone: no step for {h.silent_s:.0f} s"),
    (lambda h: h.silent_s is None, _AMBER, "waiting for the first step"),
    (lambda h: h.status & _DIVERGED, RED, "the model diverged: its state was not finite or out of bounds"),
    (lambda h: h.paused and (h.silent_s or 0.0) > SILENT_S, _BLUE, "paused"),
    (lambda h: not h.daq, RED, "input gone: the DAQ has ended; {h.instead}"),
    (lambda h: h.still and h.stages, RED, "input lost: the model stands still until it is fresh again ({h.stages})"),
    (lambda h: h.still, RED, "no step for {h.silent_s:.1f} s"),
    (lambda h: h.status & _STALE and h.stages, RED, "stale input, {h.oldest} old: {h.stages}"),
    (lambda h: h.status & _STALE, RED, "stale input, {h.oldest} old: it was held"),
    (
        lambda h: h.status & _SKIPPED and h.has_deadlines,
        RED,
        "the simulator gave steps up: it is too slow for real time",
    ),
    (lambda h: h.warning, RED, "{h.warning}"),
    (lambda h: h.misses > 1 and h.has_deadlines, _AMBER, "late: {h.misses} deadlines missed in 1 s"),
    (lambda h: h.misses and h.has_deadlines, _AMBER, "late: 1 deadline missed in 1 s"),
    (lambda h: h.paused, _BLUE, "paused"),
    (lambda h: h.slow > 1.0 or h.status & _SLOWED, _BLUE, "slow motion: {h.slow:g} times slower than real time"),
)


def trouble(h: Health) -> tuple[str, str] | None:
    """(colour, text); None if all is well."""
    return next(((colour, text.format(h=h)) for holds, colour, text in _TROUBLES if holds(h)), None)


def at_its_end(time_s: float, manoeuvre_s: float, first: str) -> str:
    """The state of a run without trouble, in words: `first` is the machine's first figure, as it is shown."""
    if time_s < manoeuvre_s:
        return RUNNING
    stands = not first.strip("-0.")
    return "parked at the end of its manoeuvre" if stands else "at the end of its manoeuvre: its inputs are held"


def banner(found: tuple[str, str] | None, quiet: str = RUNNING, beat: int | None = None) -> Markup:
    """Always as high as itself, so that nothing below jumps when it lights up. A page whose `beat` is not renewed has
    lost its connection, and says so: by an animation of its own, which every beat starts again."""
    colour, text = found or (_QUIET, quiet)
    face = "color:#fff;font-weight:700" if found else _FAINT
    lost = markup("")
    if beat is not None:
        lost = markup(
            '<style>@keyframes lost {}</style><div data-beat="{}" style="position:absolute;inset:0;padding:.45em .7em;'
            'background:{};color:#fff;font-weight:700;border-radius:4px;visibility:hidden;animation:lost {}s forwards">'
            "connection lost: this is what came last</div>",
            _LOST, beat, RED, LOST_S,
        )  # fmt: skip
    return markup(
        '<div style="position:relative;background:{};font-size:1.1rem;line-height:1.3;min-height:1.3em;'
        'padding:.45em .7em;margin:.3em .6em .5em;border-radius:4px"><span style="{}">{}</span>{}</div>',
        colour, face, text, lost,
    )  # fmt: skip


# ---- figures ---------------------------------------------------------------------------------------------------------

_GRID = "display:grid;grid-template-columns:repeat(auto-fit,minmax(6.6rem,1fr));gap:.35rem;margin:.25rem .6rem .5rem"
_BOX = "border:1px solid rgba(128,128,128,.35);border-radius:4px;padding:.3rem .5rem;min-width:0;overflow:hidden"
_BIG = "font-size:1.35rem;font-weight:600;line-height:1.62rem;font-variant-numeric:tabular-nums;white-space:nowrap"
_LONG = _BIG.replace("1.35rem", "1.05rem")
_MOST_BIG = 7.0  # letters of a figure with its unit, which is half as large


def figure(tile: Tile, value: float) -> str:
    if tile.words and math.isfinite(value) and 0 <= round(value) < len(tile.words):
        return tile.words[round(value)]
    return number(value * tile.factor, tile.digits)


_WORD = "font-size:1rem;font-weight:600;line-height:1.62;white-space:nowrap"
_WIDE = ";grid-column:span 2"  # of words that one column would cut off
_MOST_LETTERS = 9  # of one


def _size(text: str, unit: str) -> str:
    """The largest font size with which a tile does not cut the text off."""
    return _BIG if len(text) + 0.5 * len(unit) <= _MOST_BIG else _LONG


def _tile(tile: Tile, value: float) -> Markup:
    text = figure(tile, value)
    return markup(
        '<div style="{}"><div style="font-size:.72rem;{}">{}</div><div style="{}">{}'
        '<span style="font-size:.72rem;font-weight:400;{}"> {}</span></div></div>',
        _BOX + _WIDE * any(len(word) > _MOST_LETTERS for word in tile.words), _FAINT, tile.label,
        _WORD if tile.words else _size(text, tile.unit), text, _FAINT, tile.unit,
    )  # fmt: skip


def _bar(tile: Tile, value: float, full: float, middle: bool, stage: int) -> Markup:
    """A tile with a bar: from the left, or from the middle, where positive is to the left. What is not fresh says so
    beside its name."""
    shown, unit = value * tile.factor, tile.unit
    share = min(max(shown / full, -1.0), 1.0) if math.isfinite(shown) else 0.0
    width = abs(share) * (50.0 if middle else 100.0)
    left = (50.0 - width if share > 0 else 50.0) if middle else 0.0
    colour = tile.colour or "#1c7ed6"
    if middle and tile.ways:  # which way is clearer than a sign
        unit += f" {tile.ways[0]}" * (shown > 0.5) + f" {tile.ways[1]}" * (shown < -0.5)
        shown = abs(shown)
    label = f"{tile.label}: {STAGES[stage]}" if 0 < stage < len(STAGES) else tile.label
    text = number(shown, tile.digits)
    line = markup('<div style="position:absolute;left:50%;width:1px;height:100%;background:currentColor"></div>')
    return markup(
        '<div style="{}"><div style="font-size:.72rem;{}">{}</div><div style="{}">{}'
        '<span style="font-size:.72rem;font-weight:400;{}"> {}</span></div>'
        '<div style="position:relative;height:.4rem;border-radius:2px;background:rgba(128,128,128,.3)">'
        '<div style="position:absolute;left:{}%;width:{}%;height:100%;border-radius:2px;background:{}"></div>{}</div>'
        "</div>",
        _BOX, f"color:{RED}" if stage else _FAINT, label, _size(text, unit), text, _FAINT, unit,
        f"{left:.1f}", f"{width:.1f}", colour, line if middle else "",
    )  # fmt: skip


def dials(
    hands: Sequence[Tile], figures: Sequence[Tile], value: Callable[[str], float], rows: dict[str, Row]
) -> Markup:
    row_of = {to: number for number, row in enumerate(rows.values()) for to in row.to}
    scale = {to: row.full for row in rows.values() if isinstance(row, Affine) for to in row.to}
    word = value("input_stages")
    stages = int(word) if math.isfinite(word) else 0
    feet = joined(
        _bar(
            t, value(t.channel), (t.full or scale.get(t.channel, math.tau)) * t.factor, t.channel not in scale,
            stage_of(stages, row_of[t.channel]) if t.channel in row_of else 0,
        )
        for t in hands
    )  # fmt: skip
    rest = joined(_tile(t, value(t.channel)) for t in figures)
    return markup('<div style="{}">{}</div><div style="{}">{}</div>', _GRID, feet, _GRID, rest)


def status_words(now: int, lately: int) -> str:
    """The newest step's status in words; that of others of the last second is added."""
    words = [text for bit, text in step_record.STATUS.items() if now & bit]
    others = [text for bit, text in step_record.STATUS.items() if lately & ~now & bit]
    text = ", ".join(words) or "free running"
    return text + (f" (in the last second: {', '.join(others)})" if others else "")


def _row(label: str, text: str, hint: str = "") -> Markup:
    return markup(
        '<tr title="{}"><td style="padding:.1rem .8rem .1rem 0;white-space:nowrap;{}">{}</td>'
        '<td style="font-variant-numeric:tabular-nums">{}</td></tr>',
        hint, _FAINT, label, text,
    )  # fmt: skip


def _pair(median: float, most: float) -> str:
    return f"{duration(median)}, at most {duration(most)}"


def books(step: Any, pace: Pace | None, balance: Balance, seconds: float, waiting: int | None) -> Markup:
    """Age, cost, lateness of the last second; what became of the blocks; status and commands."""
    rows = []
    if pace is not None:
        rows = [
            _row("age at use", _pair(pace.age_median, pace.age_most), "of the input block, last second"),
            _row("step cost", _pair(pace.cost_median, pace.cost_most), "from taking the block to the pushed result"),
            _row("lateness", _pair(pace.lateness_median, pace.lateness_most), "start of a step after its instant"),
        ]
    blocks = f"{balance.used} used, {balance.superseded} superseded"
    blocks += f", {balance.again} used again" * bool(balance.again) + f", {balance.gaps} gaps" * bool(balance.gaps)
    rows.append(_row(f"blocks, {seconds:.0f} s", blocks, "used + superseded are all there were"))
    if waiting is not None:
        rows.append(_row("newer blocks", str(waiting), "pushed by the DAQ since the one that was used last"))
    rows.append(_row("status", status_words(int(step["status"]), pace.status if pace is not None else 0)))
    rows.append(_row("commands obeyed", str(int(step["commands"]))))
    rows.append(_row("step", f"{int(step['step'])}  ({float(step['time']):.1f} s)"))
    return markup(
        '<table style="border-collapse:collapse;font-size:.8rem;line-height:1.35;margin:.2rem .8rem .5rem">{}</table>',
        joined(rows),
    )


def dash(state: tuple[str, str], first: tuple[Tile, float] | None, pace: Pace | None, misses: int) -> Markup:
    """What the compact page shows, for a tablet in the car: a warning, the machine's first figure, the age of the
    inputs and deadlines missed, as big as there is room."""
    colour, text = state
    age, _, unit = (duration(pace.age_median) if pace is not None else "–").partition(" ")
    shown = [_large("age of the inputs", age, unit), _large(f"deadlines missed, last {SECONDS:.0f} s", str(misses))]
    if first is not None:
        tile, value = first
        shown.insert(0, _large(tile.label, figure(tile, value), tile.unit, "100%", 38))
    return markup(
        '<div style="background:{};font-size:min(6vmin,3.4vw);padding:2vmin;min-height:1.2em">{}</div>'
        '<div style="display:flex;flex-wrap:wrap">{}</div>',
        colour, text, joined(shown),
    )  # fmt: skip


def _large(label: str, shown: str, unit: str = "", width: str = "0", size: int = 17) -> Markup:
    return markup(
        '<div style="flex:1 1 {};padding:2vmin 3vmin"><div style="font-size:4vmin;opacity:.7">{}</div>'
        '<div style="font-size:min({}vmin,20vw);line-height:1.1;font-weight:600;white-space:nowrap;'
        'font-variant-numeric:tabular-nums">{}<span style="font-size:.4em;font-weight:400"> {}</span></div></div>',
        width, label, size, shown, unit,
    )  # fmt: skip
