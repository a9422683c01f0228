"""Step by step through the rows: what to do, Enter, and on, back or past a row as the person likes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sync.clock import now_ns, sleep_until
from sync.config.input_rows import Encoder, HallPair, VoiceCoil
from tandem.calibrate.person import Keys, Screen
from tandem.calibrate.readings import Again, Captured, FromZero, Readings
from tandem.calibrate.values import Calibration, shown_unit, signal

POLL_S = 0.1
_FILL_NS = 3_000_000_000  # a window may take so long to fill
KEYS = "Enter captures, s skips the row, r repeats the step before, q quits and writes nothing"


class Quit(Exception):
    """The person has had enough."""


@dataclass(frozen=True)
class Step:
    row: str
    kind: str  # zero, amount or full


def live_line(readings: Readings, calibration: Calibration) -> str:
    newest = readings.newest
    if newest is None:
        return "no block yet"
    parts = []
    for name, row in calibration.configured.items():
        counts, digits = round(float(signal(row, newest))), 4 if row.unit in ("m", "m/s") else 1
        value = round(calibration.convert(name, float(counts)), digits) + 0.0  # no -0.0
        parts.append(f"{name} {counts:6d} = {value:6.{digits}f} {shown_unit(row)}")
    age = (readings.age_ns or 0) * 1e-6
    rate = "no blocks" if readings.silent else f"{readings.rate_hz:.0f} blocks/s"
    return "   ".join([*parts, rate, f"age {age:.1f} ms" if age < 1000 else f"age {age / 1000:.1f} s"])


def words(step: Step, calibration: Calibration) -> str:
    """What the row's end is, for a question and for the fragment."""
    row = calibration.configured[step.row]
    if step.kind == "zero":
        return row.zero_is
    amount = calibration.amount.get(step.row, math.nan)
    if isinstance(row, Encoder):
        return f"{amount:g} {row.unit} {row.full_is}"
    if isinstance(row, HallPair | VoiceCoil):
        return f"{row.full_is}, {amount:g} {calibration.amount_unit(step.row)}"
    return f"{row.full_is} with {amount:g} {row.unit}" if calibration.asks_amount(step.row) else row.full_is


class Dialogue:
    """`watch` is called all the while: it raises when the DAQ has ended. `doubts` counts implausible counter moves."""

    def __init__(
        self,
        readings: Readings,
        calibration: Calibration,
        rows: Sequence[str],
        keys: Keys,
        screen: Screen,
        watch: Callable[[], None],
        doubts: Callable[[], int],
    ):
        self._readings, self._calibration = readings, calibration
        self._keys, self._screen, self._watch, self._doubts = keys, screen, watch, doubts
        self._steps = [
            Step(row, kind)
            for row in rows
            for kind in (("zero", "amount", "full") if calibration.asks_amount(row) else ("zero", "full"))
        ]
        self._warned: set[Step] = set()  # of the end of a range
        self._doubted: dict[str, int] = {}

    # ---- the way through -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Returns when what was captured shall be written; raises Quit, Ended, or what `watch` raises."""
        self._screen.show(KEYS)
        at = 0
        while True:
            at = self._step(at) if at < len(self._steps) else self._last(at)
            if at < 0:
                return

    def _step(self, at: int) -> int:
        """One step; returns the next."""
        step = self._steps[at]
        answer = self._answer(self._question(step))
        if answer == "q":
            raise Quit
        if answer == "s":
            self._screen.show(f"{step.row}: skipped, it stays as configured")
            self._calibration.forget(step.row)
            return max(i for i, s in enumerate(self._steps) if s.row == step.row) + 1
        if answer == "r":
            return self._back(at)
        try:
            if step.kind == "amount":
                self._calibration.amount[step.row] = self._amount(step.row, answer)
                return at + 1
            if answer:
                raise Again(f"{answer!r} is not one of the keys: {KEYS}")
            captured = self._capture(step)
        except Again as again:
            self._screen.show(f"{step.row}: {again}", "yellow")
            if isinstance(again, FromZero):
                self._calibration.forget(step.row)
                return self._steps.index(Step(step.row, "zero"))
            return at
        if captured.end is not None and step not in self._warned:
            self._warned.add(step)
            self._screen.show(
                f"{step.row}: reads {captured.end}, the end of its range: whatever lies beyond cannot be seen. If"
                " this is its stop, Enter once more takes it; if not, move it less",
                "yellow",
            )
            return at
        return self._take(at, step, captured)

    def _take(self, at: int, step: Step, captured: Captured) -> int:
        calibration, row = self._calibration, step.row
        counter = row in calibration.counters
        if step.kind == "zero":
            calibration.zero[row] = captured
            calibration.full.pop(row, None)
            self._doubted[row] = self._doubts()
            if calibration.integrates(row):
                self._readings.integrate(calibration.configured[row].channels[0], captured)
            self._screen.show(f"{row}: {words(step, calibration)} at {captured.counts:.1f} counts", "green")
            return at + 1
        gap = captured.epoch != calibration.zero[row].epoch
        if counter and (gap or self._doubts() != self._doubted[row]):
            why = "there was a gap in the blocks" if gap else "the counter made a move no encoder can make"
            self._screen.show(f"{row}: {why}, so the counts before and after do not belong together", "yellow")
            calibration.forget(row)
            return self._steps.index(Step(row, "zero"))
        calibration.full[row] = captured
        self._screen.show(f"{row}: {words(step, calibration)} at {captured.counts:.1f} counts", "green")
        return at + 1

    def _back(self, at: int) -> int:
        """Go to the step before; if its row was skipped, to the first step of that row."""
        before = self._steps[max(at - 1, 0)]
        if before.row not in self._calibration.zero or before.kind == "zero":
            self._calibration.forget(before.row)
            return self._steps.index(Step(before.row, "zero"))
        self._calibration.full.pop(before.row, None)
        return self._steps.index(before)

    def _last(self, at: int) -> int:
        """Everything has been asked: the person looks at the live line and decides."""
        calibration = self._calibration
        if not calibration.done:
            self._screen.show("every row was skipped")
            raise Quit
        counters = [row for row in calibration.done if row in calibration.counters]
        question = "Move everything and look at the values. Enter writes them, r repeats the last step, q quits"
        if counters:
            written = calibration.write_counter_zeros
            self._screen.show(
                f"{', '.join(counters)}: an incremental encoder counts from 0 where it stood when the DAQ started, so a"
                " zero holds for that start only. "
                + (
                    "It is written all the same: good for starts like this one"
                    if written
                    else "It is not written: start every run with them at their zeros"
                )
            )
            question += f"; z {'leaves zeros of encoders out' if written else 'writes zeros of encoders too'}"
        while True:
            answer = self._answer(question + ":")
            if answer == "":
                return -1
            if answer == "q":
                raise Quit
            if answer == "r":
                return self._back(at)
            if answer == "z" and counters:
                calibration.write_counter_zeros = not calibration.write_counter_zeros
                return at
            self._screen.show(f"{answer!r} is not one of the keys", "yellow")

    # ---- questions and answers -------------------------------------------------------------------------------------

    def _question(self, step: Step) -> str:
        if step.kind == "zero":
            return f"{step.row}: {words(step, self._calibration)}, then Enter:"
        if step.kind == "full":
            return f"{step.row}: {words(step, self._calibration)}, hold it, then Enter:"
        row, usual = self._calibration.configured[step.row], self._calibration.usual_amount(step.row)
        default = "" if usual is None else f" [{usual:g}]"
        if isinstance(row, Encoder):
            return (
                f"{step.row}: {row.unit} you will move it {row.full_is}{default}; to its stop: lock and the"
                f" {row.unit} from stop to stop, such as lock {12 * (usual or 1.0):g}:"
            )
        unit = self._calibration.amount_unit(step.row)
        if isinstance(row, HallPair | VoiceCoil):
            return f"{step.row}: {unit} from there to: {row.full_is}:"
        return f"{step.row}: {unit} at which you will hold it, or that count as {row.full_is}{default}:"

    def _amount(self, name: str, answer: str) -> float:
        row, usual = self._calibration.configured[name], self._calibration.usual_amount(name)
        if not answer and usual is not None:
            return usual
        share = 1.0
        unit = self._calibration.amount_unit(name)
        text = answer.removesuffix(unit.lower()).strip()
        if isinstance(row, Encoder) and text.startswith("lock"):
            text, share = text.removeprefix("lock").strip(), 0.5
        try:
            value = float(text) * share
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise Again(f"{answer!r}: must be a number above 0, in {unit}")
        return value

    def _refresh(self, typed: str = "") -> None:
        self._watch()
        self._readings.poll()
        self._screen.live(live_line(self._readings, self._calibration), typed)

    def _answer(self, question: str) -> str:
        """What was typed until Enter, or one of the keys."""
        self._screen.ask(question)
        text = ""
        while True:
            self._refresh(text)
            for character in self._keys.typed(POLL_S):
                if character == "\n":
                    return text.strip().lower()
                text = text[:-1] if character in "\b\x7f" else text + character
                if self._keys.at_once and text.lower() in ("s", "r", "q", "z"):
                    return text.lower()

    def _capture(self, step: Step) -> Captured:
        end = now_ns() + _FILL_NS
        while not self._readings.full and not self._readings.silent and now_ns() < end:
            self._keys_wait()
        self._refresh()
        row, calibration = self._calibration.configured[step.row], self._calibration
        since = calibration.zero.get(step.row) if step.kind == "full" else None
        expected = calibration.expected(step.row)
        if since is not None and calibration.integrates(step.row):
            held = self._readings.capture(row.channels, expected, None)
            return self._readings.integral(held)
        return self._readings.capture(row.channels, expected, since, partial(signal, row))

    def _keys_wait(self) -> None:
        """A moment in which nothing is read: the next answer is for the next question."""
        sleep_until(now_ns() + round(POLL_S * 1e9))
        self._refresh()
