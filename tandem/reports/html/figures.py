"""The figures of a run, drawn from its steps: the hops, the age, lateness and cost, the worst steps, and the headline.

Steps may lack any field: a quantity that needs it is left out or None. Where a run has figures of its own, which have
seen every step, they go before those of the steps recorded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tandem.reports.html.style import AGE_HOPS, GREY, HOPS, STATUS_COLOURS
from tandem.reports.html.words import format_count, format_ns, format_short, format_us
from tandem.reports.outcome import events

WORST = 10
_UNUSUAL, _NOTABLE_NS = 1.5, 20_000  # a time is worth a word when it is so many times its median and this more


@dataclass(frozen=True)
class RunData:
    label: str  # "ipc", "free", "locked", …
    figures: dict[str, Any]  # of tandem/live/figures.py, and "hops_us" where available
    steps: np.ndarray  # a row a step
    rows: tuple[str, ...] = ()  # of inputs, by name


def has(steps: np.ndarray, *fields: str) -> bool:
    return len(steps) > 0 and set(fields) <= set(steps.dtype.names or ())


def column(steps: np.ndarray, field: str) -> np.ndarray:
    found: np.ndarray = steps[field].astype(np.int64)
    return found


def hops(steps: np.ndarray) -> dict[str, np.ndarray]:
    """ns of every hop of every step, as far as the fields are there."""
    out = {}
    if has(steps, "input_t_ns", "input_pushed_ns", "input_sent_ns", "input_received_ns", "taken_ns"):
        pushed, sent, received = (column(steps, f"input_{name}_ns") for name in ("pushed", "sent", "received"))
        travelled = received != 0
        sent = np.where(travelled & (sent != 0), sent, pushed)
        received = np.where(travelled, received, pushed)
        out["sensor"] = pushed - column(steps, "input_t_ns")
        out["ring"] = sent - pushed
        out["wire"] = received - sent
        out["wait"] = column(steps, "taken_ns") - received
    if has(steps, "pushed_ns", "taken_ns"):
        out["step"] = column(steps, "pushed_ns") - column(steps, "taken_ns")
    return out


def age(steps: np.ndarray) -> np.ndarray | None:
    """ns from the sample instant until the step took the block."""
    return column(steps, "input_age_ns") if has(steps, "input_age_ns") else _between(steps, "input_t_ns", "taken_ns")


def _between(steps: np.ndarray, start: str, end: str) -> np.ndarray | None:
    if not has(steps, start, end):
        return None
    found: np.ndarray = column(steps, end) - column(steps, start)
    return found


def lateness(steps: np.ndarray) -> np.ndarray | None:
    return _between(steps, "t_ns", "started_ns")


def cost(steps: np.ndarray) -> np.ndarray | None:
    return _between(steps, "started_ns", "pushed_ns")


def period_ns(steps: np.ndarray) -> int | None:
    """The planned time from step to step."""
    return int(np.median(np.diff(column(steps, "t_ns")))) if has(steps, "t_ns") and len(steps) > 1 else None


def summary_us(values: np.ndarray) -> dict[str, Any]:
    """As sync.ring.ledger summarises a histogram, but of the values themselves (nearest rank)."""
    if len(values) == 0:
        return {"n": 0, **dict.fromkeys(("mean", "p50", "p90", "p99", "p999", "max"), 0.0)}
    ranks = np.quantile(values, (0.5, 0.9, 0.99, 0.999, 1.0), method="inverted_cdf") / 1e3
    names = ("p50", "p90", "p99", "p999", "max")
    rounded = {name: round(float(value), 3) for name, value in zip(names, ranks, strict=True)}
    return {"n": len(values), "mean": round(float(values.mean()) / 1e3, 3), **rounded}


def hops_us(run: RunData) -> dict[str, dict[str, Any]]:
    """The summary of each hop: the run's own, which has seen every step, else that of the steps recorded here."""
    own = run.figures.get("hops_us") or {}
    return {name: own[name] for name in HOPS if name in own} or {k: summary_us(v) for k, v in hops(run.steps).items()}


def figure(run: RunData, key: str, values: np.ndarray | None) -> dict[str, Any] | None:
    """A summary of the run's figures; of the steps, if the run has none; None if it is not known."""
    own = run.figures.get(key)
    if own and own.get("n"):
        return dict(own)
    return None if values is None or len(values) == 0 else summary_us(values)


def time_s(steps: np.ndarray) -> np.ndarray:
    """Seconds since the first step; without a clock, the number of the row."""
    field = next((f for f in ("t_ns", "started_ns", "taken_ns") if has(steps, f)), None)
    t = np.arange(len(steps)) * 1e9 if field is None else column(steps, field)
    since: np.ndarray = (t - t[:1]) / 1e9
    return since


def step_events(steps: np.ndarray, rows: Sequence[str] = ()) -> list[tuple[str, str, np.ndarray]]:
    """(word, colour, which steps) of everything in the status words that is not as it should be.

    To be locked is as it should be; in a run that is ever locked, steps that are not are listed.
    """
    from sim_service.inputs.stages import counted
    from sim_service.step_record import HOLDOVER, LOCKED, STATUS

    if not has(steps, "status"):
        return []
    status = column(steps, "status")
    found = [(word, STATUS_COLOURS.get(bit, GREY), status & bit != 0) for bit, word in STATUS.items() if bit != LOCKED]
    if has(steps, "input_stages"):
        found += [(word, GREY, where) for word, where in counted(column(steps, "input_stages"), rows).items()]
    if (status & LOCKED).any():
        found.append(("not locked", GREY, status & (LOCKED | HOLDOVER) == 0))
    return found


def worst(run: RunData, count: int = WORST) -> list[dict[str, Any]]:
    """The steps with the oldest input, oldest first, and what happened there."""
    ages = age(run.steps)
    if ages is None:
        return []
    steps, each, late, t = run.steps, hops(run.steps), lateness(run.steps), time_s(run.steps)
    found = step_events(steps, run.rows)
    usual = {name: float(np.median(values)) for name, values in each.items()}
    advance = np.diff(column(steps, "input_seq")) if has(steps, "input_seq") else None
    usual_advance = int(np.median(advance)) if advance is not None and len(advance) else None
    rows = []
    for i in np.argsort(-ages, kind="stable")[:count].tolist():
        row: dict[str, Any] = {"step": int(steps["step"][i]) if has(steps, "step") else i}
        row |= {"at_s": round(float(t[i]), 3), "age_us": ages[i] / 1e3}
        happened = [word for word, _, where in found if where[i]]
        if late is not None:
            row["lateness_us"] = late[i] / 1e3
            if late[i] > _UNUSUAL * np.median(late) + _NOTABLE_NS:
                happened.append(f"started {format_ns(late[i])} late")
        mine = {name: int(values[i]) for name, values in each.items()}
        if "wait" in mine:
            row["hops_us"] = {name: value / 1e3 for name, value in mine.items()}
            row["largest_hop"] = max(AGE_HOPS, key=lambda name: mine[name])
        for name, value in mine.items():
            if value > _UNUSUAL * usual[name] + _NOTABLE_NS:
                happened.append(f"{name} took {format_ns(value)}, usually {format_ns(usual[name])}")
        if advance is not None and i > 0:
            row["blocks_on"] = int(advance[i - 1])
            row["blocks_on_usual"] = usual_advance
        if i == 0:
            happened.append("the first step recorded")
        elif i == len(steps) - 1:
            happened.append("the last step: the run was ending")
        row["happened"] = happened
        rows.append(row)
    return rows


def headline(run: RunData) -> str:
    """How old the data were, and whether any were lost, in plain words."""
    figures = run.figures
    ages = figure(run, "age_us", age(run.steps))
    if ages is None:
        return f"No step was made ({figures.get('ended', 'nothing is known of why')})."
    text = f"A step used data {format_short(ages['p50'])} old (median), at worst {format_short(ages['max'])}; "
    count = figures.get("balance") or {}
    if not count:
        text += "how many blocks were lost is not known."
    elif not count.get("closes", True):
        text += "the balance of blocks does not close."
    elif count.get("lost"):
        text += f"{format_count(count['lost'])} of {format_count(count.get('produced', 0))} blocks were lost."
    else:
        text += "nothing was lost."
    troubles = {
        "deadline_misses": "missed the deadline",
        "skipped": "skipped",
        "stale_steps": "with stale input",
        "capped_steps": "with iterations capped",
    }
    bad = [f"{format_count(figures[key])} {words}" for key, words in troubles.items() if figures.get(key)]
    steps = format_count(figures.get("steps") or len(run.steps))
    clause = "that were made " if figures.get("steps_not_made") else ""
    text += f" Of {steps} steps: {', '.join(bad)}." if bad else f" All {steps} steps {clause}were in time."
    text += "".join(f" {sentence}" for sentence in events(figures))
    bound = figures.get("bound_us")
    return text + (f" Ages are known to ±{format_us(bound)}." if isinstance(bound, int | float) and bound > 0 else "")
