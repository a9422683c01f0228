"""Tuning: every parameter of the model with its limits, what was changed, undone, put back, and kept in a file.

A live parameter has a slider with a field beside it. Where its limits are far apart the slider covers what is near its
start, unless all of it is asked for. A number that is being typed is not obeyed digit by digit: a jump waits until it
has come to rest, while a slider that is drawn acts at once. Parameters that shape the model have sliders, too, where
the simulator makes its tables again while it runs; these act when they have come to rest, for each change takes it a
part of a second. The others are shown, and need a new start. Values follow what any client sets.
"""

import math
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sim_service.contract.machine import Machine, Parameter
from sync.clock import now_ns
from tandem.reports.html.markup import Markup, joined, markup, show
from tandem.view.commander import Commander

_MERGE_NS = 1_000_000_000  # moves of one slider that follow each other this quickly are one change
_MOST_UNDO = 200
_JUMP = 0.02  # of the limits: no slider is drawn as quickly as that
_REST_NS = 600_000_000
WIDE = 8.0  # limits further from the start than this factor
NOTHING = 1e-3  # of the limits
NEAR_M, NEAR_SHARE = 0.05, 0.5  # of what shapes the model: so far from its start, points in m, else of its value

ALL, CHANGED = "all that can change", "changed"
_SLASH = "\u202f\u2215\u202f"  # at which no line is broken
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,95}\.toml")


# ---- what belongs together -------------------------------------------------------------------------------------------


def grouped(parameters: Iterable[Parameter]) -> dict[str, list[Parameter]]:
    """In order of appearance; whatever stands alone is `other`, last."""
    found: dict[str, list[Parameter]] = {}
    for p in parameters:
        found.setdefault(p.group_name, []).append(p)
    alone = [g for g, members in found.items() if len(members) == 1]
    other = [found.pop(g)[0] for g in alone]
    if other:
        found["other"] = other
    return found


def _first_shown(groups: dict[str, list[Parameter]], wanted: str = "") -> str:
    """What the machine asks for, else the first with several sliders."""
    if wanted in groups:
        return wanted
    several = [g for g, members in groups.items() if sum(p.live for p in members) >= 4]
    return several[0] if several else ALL


def matches(p: Parameter, words: str) -> bool:
    """Every word is in its name or its text."""
    text = f"{p.name} {p.name.replace('_', ' ')} {p.text}".lower()
    return all(word in text for word in words.lower().split())


# ---- sliders ---------------------------------------------------------------------------------------------------------


def nice(value: float) -> float:
    """1, 2 or 5 times a power of ten, at most `value`."""
    if not (value > 0.0 and math.isfinite(value)):
        return 1e-6
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return float(f"{next(m for m in (5, 2, 1) if m * power <= value * (1 + 1e-9)) * power:.1e}")


def whole(p: Parameter) -> bool:
    """A choice of few, such as a switch."""
    return p.unit == "1" and p.high - p.low <= 3.0 and all(float(v).is_integer() for v in (p.low, p.high, p.value))


def slider_range(p: Parameter, start: float) -> tuple[float, float, float, bool]:
    """(low, high, step, whether the limits are wider than that)."""
    if whole(p):
        return p.low, p.high, 1.0, False
    low, high = p.low, p.high
    wide = False
    if p.shapes:
        # a start of nearly nothing is no measure of what is near to it
        share = NEAR_SHARE * abs(start) if abs(start) > NOTHING * (p.high - p.low) else 0.1 * (p.high - p.low)
        near = NEAR_M if p.unit == "m" else float(f"{share:.3g}")
        low, high, wide = max(p.low, start - near), min(p.high, start + near), True
    elif start > 0.0 and p.low >= 0.0 and p.high > WIDE * start:
        high, wide = min(p.high, nice(5.0 * start)), True
    elif start == 0.0 and p.low == 0.0 and p.high > 1000.0:
        high, wide = nice(0.1 * p.high), True
    return low, high, nice((high - low) / 1000.0), wide


def short(value: float) -> str:
    return f"{value:.6g}"


# ---- changes ---------------------------------------------------------------------------------------------------------


class Changes:
    """A stack of what was changed, to be undone one by one. Not for threads."""

    def __init__(self) -> None:
        self._stack: list[dict[str, float]] = []  # of each change, what was there before
        self._last: tuple[str, ...] = ()
        self._last_ns = -(2**62)

    def __len__(self) -> int:
        return len(self._stack)

    def note(self, before: dict[str, float], now: int) -> None:
        """These are about to be changed, from these values."""
        names = tuple(sorted(before))
        again = names == self._last and now - self._last_ns < _MERGE_NS
        self._last, self._last_ns = names, now
        if before and not (again and self._stack):
            self._stack.append(before)
            del self._stack[:-_MOST_UNDO]

    def undo(self) -> dict[str, float]:
        """The values that undo the last change; {} if there is none."""
        self._last = ()
        return self._stack.pop() if self._stack else {}


def differing(parameters: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Parameters that are not as they started, of the simulator's answer."""
    return {name: float(p["value"]) for name, p in parameters.items() if p["value"] != p["first"]}


def back_to_start(parameters: dict[str, dict[str, Any]]) -> dict[str, float]:
    return {name: float(parameters[name]["first"]) for name in differing(parameters)}


# ---- a file ----------------------------------------------------------------------------------------------------------


def fragment(name: str, model: str, parameters: dict[str, dict[str, Any]]) -> str:
    """What differs from the start, as part of a configuration."""
    lines = [f"# Parameters of {model} as tuned in a run of {name!r}, where they differ from its start. Used by", "#"]
    lines += ['#   include = ["this file"]', "#", "# in a configuration of the same machine.", "", "[sim.parameters]"]
    for key, value in differing(parameters).items():
        p = parameters[key]
        unit = "" if p["unit"] == "1" else f" {p['unit']}"
        lines.append(f"{key} = {float(value)!r}  # was {short(p['first'])}{unit}; {' '.join(p['text'].split())}")
    return "\n".join(lines) + "\n"


def save(text: str, name: str, folder: Path) -> Path:
    """Write to a new file in `folder`; a number is appended to a name that is taken. ValueError where it may not be.

    A page writes TOML files with plain names into one folder, which no other user may write to, and overwrites nothing.
    """
    if not _FILE.fullmatch(name.strip()):
        raise ValueError(f"{name.strip()!r}: must be a file name such as mine.toml: letters, digits, - and _")
    base = folder / name.strip()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = folder.lstat()
        if not stat.S_ISDIR(owner.st_mode) or owner.st_uid != os.getuid() or owner.st_mode & 0o022:
            raise ValueError(f"{folder}: must be a folder of this user that nobody else may write to; see view.saves")
        for number in range(1, 1000):
            path = base if number == 1 else base.with_name(f"{base.stem}_{number}.toml")
            try:
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
                    file.write(text)
                return path
            except FileExistsError:
                continue
    except OSError as error:
        raise ValueError(f"{base}: cannot be written: {error.strerror}") from None
    raise ValueError(f"{base}: there are a thousand of them already")


# ---- on the page -----------------------------------------------------------------------------------------------------


class _Knob:
    """A live parameter: a slider and the field beside it."""

    def __init__(self, gui: Any, p: Parameter, start: float, tune: Callable[[str, float], None]):
        self.p, self._tune = p, tune
        low, high, step, self.wide = slider_range(p, start)
        self._near = (low, high)
        unit = "" if p.unit == "1" else f" [{p.unit}]".replace("/", _SLASH)
        unit_word = "" if p.unit == "1" else f" {p.unit}"
        limits = f"{short(p.low)} to {short(p.high)}{unit_word}, at the start {short(start)}"
        self._slider = gui.add_slider(
            p.name.replace("_", " ") + unit, low, high, step, start, hint=f"{p.name}: {p.text}; {limits}"
        )
        self._slider.on_update(self._moved)
        self.value = start

    def _moved(self, event: Any) -> None:
        if event.client_id is not None:  # a person, not we
            value = float(min(max(event.target.value, self.p.low), self.p.high))
            self.value = value
            self._tune(self.p.name, value)

    def follow(self, value: float) -> None:
        """The simulator has it so."""
        self.value = value
        if not self._slider.min <= value <= self._slider.max:  # another client went further
            self._slider.min, self._slider.max = min(value, self._slider.min), max(value, self._slider.max)
        if self._slider.value != value:
            self._slider.value = value

    def reach(self, all_of_it: bool) -> None:
        if self.wide:
            low, high = (self.p.low, self.p.high) if all_of_it else self._near
            self._slider.min, self._slider.max = min(low, self.value), max(high, self.value)

    def show(self, visible: bool) -> None:
        if self._slider.visible != visible:
            self._slider.visible = visible


class Tuning:
    def __init__(
        self, gui: Any, model: Machine, starts: dict[str, float], name: str, commander: Commander,
        saves: Path | None = None, shaping: bool = False,
    ):  # fmt: skip
        """`shaping`: whether the simulator takes parameters that shape the model while it runs."""
        self._model, self._name, self._commander, self._saves = model, name, commander, saves
        self._lock = threading.Lock()
        self._changes = Changes()
        self._groups = grouped(sorted(model.parameters, key=lambda p: not p.live))  # what acts at once is first
        self._answers = -1
        self._note = ""
        self._settling: dict[str, tuple[float, int]] = {}  # typed, and when
        self._limits = {p.name: p for p in model.parameters}
        self._knobs: dict[str, _Knob] = {}
        self._live = {p.name for p in model.parameters if p.live or (shaping and p.shapes)}
        live_groups = [g for g, members in self._groups.items() if any(p.name in self._live for p in members)]
        fixed_groups = [g for g in self._groups if g not in live_groups]
        self._search = gui.add_text("search", "", hint="words of a name or its description; overrides the group")
        self._group = gui.add_dropdown(
            "group", (*live_groups, ALL, CHANGED, *fixed_groups),
            initial_value=_first_shown(self._groups, model.shown.display.tuned),
        )  # fmt: skip
        wide = gui.add_checkbox(
            "all limits", False, hint="sliders reach all there may be, not only what is near the start"
        )
        wide.on_update(lambda event: self._reach(event.target.value))
        self._search.on_update(lambda _: self._filter())
        self._group.on_update(lambda _: self._filter())
        self._status = gui.add_html("")
        self._knobs = {
            p.name: _Knob(gui, p, starts[p.name], self._tune)
            for members in self._groups.values() for p in members if p.name in self._live
        }  # fmt: skip
        self._fixed = gui.add_html("")
        self._values = dict(starts)
        gui.add_divider()
        buttons = gui.add_button_group("changes", ("undo", "reset to start"))
        buttons.on_click(lambda event: self._undo() if event.target.value == "undo" else self._reset())
        self._path = gui.add_text("file", f"{name}_parameters.toml", hint=f"a new file in {saves}")
        gui.add_button(
            "save as configuration", hint="what differs from the start, to be included by a configuration"
        ).on_click(lambda _: self._save())
        self._filter()

    # ---- what people do (in threads of viser) ----

    def _tune(self, name: str, value: float) -> None:
        with self._lock:
            p = self._limits[name]
            before = self._settling.get(name, (self._values[name], 0))[0]
            jump = abs(value - before) > _JUMP * (p.high - p.low if p.high > p.low else 1.0)
            if p.shapes or jump or name in self._settling:
                self._settling[name] = (value, now_ns())
                return
        self._obey(name, value)

    def _obey(self, name: str, value: float) -> None:
        with self._lock:
            self._changes.note({name: self._values[name]}, now_ns())
            self._values[name] = value
        self._commander.put({name: value})

    def _settle(self) -> None:
        """What was typed has come to rest."""
        now = now_ns()
        with self._lock:
            rest = {n: v for n, (v, since) in self._settling.items() if now - since > _REST_NS}
            for name in rest:
                del self._settling[name]
        for name, value in rest.items():
            self._obey(name, value)

    def _reach(self, all_of_it: bool) -> None:
        for knob in self._knobs.values():
            knob.reach(all_of_it)

    def _undo(self) -> None:
        with self._lock:
            waiting = bool(self._settling)  # what has not come to rest is undone first
            self._settling.clear()
            before = {} if waiting else self._changes.undo()
            self._answers = -1  # sliders go back to what is
        self._set(before)
        self._note = "" if before or waiting else "nothing to undo"

    def _reset(self) -> None:
        parameters = self._parameters()
        wanted = back_to_start(parameters)
        with self._lock:
            self._settling.clear()
            self._answers = -1
            self._changes.note({name: float(parameters[name]["value"]) for name in wanted}, now_ns())
        self._set(wanted)
        self._note = "" if wanted else "all is as it started"

    def _set(self, values: dict[str, float]) -> None:
        if values:
            with self._lock:
                self._values.update(values)
            self._commander.put(values)

    def _save(self) -> None:
        parameters = {n: p for n, p in self._parameters().items() if n in self._limits and self._limits[n].of_the_file}
        if not differing(parameters):
            self._note = "nothing differs from the start"
            return
        try:
            if self._saves is None:
                raise ValueError("this page has no folder to save into")
            path = save(fragment(self._name, self._model.name, parameters), self._path.value, self._saves)
        except ValueError as error:
            self._note = str(error)
            return
        self._note = f'saved; use it by include = ["{path}"]'

    def _parameters(self) -> dict[str, dict[str, Any]]:
        answer = self._commander.answer
        return answer["parameters"] if answer is not None else {}

    def _filter(self) -> None:
        words, group = self._search.value.strip(), self._group.value
        changed = differing(self._parameters())
        shown, fixed = set(), []
        for title, members in self._groups.items():
            for p in members:
                if words:
                    wanted = matches(p, words)
                elif group == CHANGED:
                    wanted = p.name in changed
                else:
                    wanted = title == group or (group == ALL and p.name in self._live)
                if wanted and p.name in self._live:
                    shown.add(p.name)
                elif wanted:
                    fixed.append(p)
        for name, knob in self._knobs.items():
            knob.show(name in shown)
        show(self._fixed, _fixed_table(fixed, self._values))

    # ---- at a look ----

    def show(self) -> None:
        self._settle()
        commander = self._commander
        if not self._settling and commander.answers != self._answers and not commander.busy:
            self._answers = commander.answers
            for name, parameter in self._parameters().items():
                value = float(parameter["value"])
                if name in self._values and self._values[name] != value:
                    self._values[name] = value
                if name in self._knobs and self._knobs[name].value != value:
                    self._knobs[name].follow(value)
        self._show_notes()

    def _show_notes(self) -> None:
        changed = len(differing(self._parameters()))
        lines = []
        if self._commander.error:
            lines.append(markup('<div style="color:#e03131;font-weight:600">{}</div>', self._commander.error))
        if self._note:
            lines.append(markup("<div>{}</div>", self._note))
        count = f"{changed} changed" if changed else "as it started"
        lines.append(markup('<div style="opacity:.62">{}; {} to undo</div>', count, len(self._changes)))
        show(
            self._status,
            markup(
                '<div style="font-size:.8rem;margin:.1rem .8rem .3rem;overflow-wrap:anywhere">{}</div>', joined(lines)
            ),
        )


def _fixed_table(parameters: list[Parameter], values: dict[str, float]) -> Markup:
    """What needs a new start, to be read only."""
    if not parameters:
        return markup("")
    rows = joined(
        markup(
            '<tr title="{}"><td style="opacity:.75;padding-right:1rem">{}</td>'
            '<td style="text-align:right;font-variant-numeric:tabular-nums">{}</td>'
            '<td style="opacity:.62;padding-left:.4rem">{}</td></tr>',
            p.text, p.name, short(values[p.name]), "" if p.unit == "1" else p.unit,
        )
        for p in parameters
    )  # fmt: skip
    return markup(
        '<div style="font-size:.8rem;margin:.3rem .8rem"><div style="opacity:.62">need a new start:'
        ' sim.parameters.name = value</div><table style="border-collapse:collapse">{}</table></div>',
        rows,
    )
