"""The figures of a run: as one JSON object, and as tables for people.

Definitions, the same everywhere. *Transfer*: from the push into the DAQ's ring until the block can be read from the
ring the simulator reads. *Age at use*: from the sample instant until the step takes the block. *Lateness*: from a
step's planned to its real start. *Deadline miss*: a step not finished when the next is due. *ms/loop*: duration
divided by take-all loops, as the source counts it.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sync.config.config import Config
from sync.ring.ledger import Balance
from sync.ring.streams import AXIS_EFFORTS
from tandem.live.supervisor.supervise import Outcome
from tandem.reports.outcome import TITLES, events
from tandem.reports.report import Line, Section, Table, bad, good, warn
from tandem.reports.round_trip import ROUND_TRIP

HOPS = {
    "sensor": "sensor: sampled, in the DAQ's ring",
    "ring": "ring: in the ring, sent",
    "wire": "wire: sent, received",
    "wait": "wait: received, taken by a step",
    "step": "step: taken, result in the ring",
}

_NOTHING = {"n": 0, "mean": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0, "p999": 0.0, "max": 0.0}
HISTOGRAMS = {
    "transfer_us": "transfer",
    "age_us": "age at use",
    "step_us": "step cost",
    "lateness_us": "lateness",
}


def balance(outcome: Outcome) -> Balance:
    """Where the blocks went.

    Produced comes from the DAQ (from its ring, if it cannot report), used and superseded from the counters of the
    loop and the receiver, lost from sequence numbers: independent sources, so the sum is a check.
    """
    daq, sim = outcome.reports["daq"], outcome.reports["sim"]
    if _restarted(outcome):
        return _balance_after_restarts(outcome)
    received = sim.get("received") or {}
    head = max(daq.get("head", 0), outcome.counted["head"])
    blocks = max(daq.get("blocks", 0), outcome.counted["head"])
    unused = head - 1 - sim.get("last_seq", -1)
    return Balance(
        produced=blocks + daq.get("lost", 0),
        used=sim.get("used", 0),
        superseded=sim.get("superseded", 0) + received.get("superseded", 0),
        lost=daq.get("lost", 0) + unused,
    )


def _restarted(outcome: Outcome) -> bool:
    """Whether a service crashed: it was restarted, or its last figures are those of its last status."""
    failed = outcome.failure is not None and not outcome.reports["sim"].get("ended")
    return failed or any(crash.process in ("daq", "sim") for crash in outcome.crashes)


def _balance_after_restarts(outcome: Outcome) -> Balance:
    """The balance if a service crashed and its counters are lost: all numbers come from the rings, read from outside.

    Block numbers go on from one start to the next; blocks that came while there was no simulator are lost.
    """
    seen = outcome.counted
    lost_at_source = sum(life.get("lost", 0) for life in [*outcome.past.get("daq", []), outcome.reports["daq"]])
    return Balance(
        produced=seen["read"] + seen["lost"] + lost_at_source,
        used=seen["used"],
        superseded=seen["last_seq"] + 1 - seen["used"] - seen["unread"],
        lost=lost_at_source + seen["unread"] + seen["head"] - 1 - seen["last_seq"],
    )


def _wire(daq: dict[str, Any], sim: dict[str, Any], several_lives: bool) -> dict[str, int] | None:
    """The hop over the wire, counted at both ends: blocks that were sent, and blocks that were received."""
    received = sim.get("received")
    if not received or "sent" not in daq or several_lives:
        return None
    return {
        "not_sent": daq["blocks"] - daq["sent"],  # overtaken before they were sent
        "sent": daq["sent"],
        "received": received["blocks"],
        "overtaken": daq["sent"] - received["blocks"],  # by a newer one on the wire, or before there was a subscriber
    }


def _door(report: dict[str, Any]) -> dict[str, Any]:
    """Connections refused or cut off at the service's sockets, and malformed requests there."""
    own: dict[str, Any] = {key: report[key] for key in ("refused", "cut", "flooded", "commands") if key in report}
    clock = report.get("clock", {})
    return {**own, **({"clock": clock} if "asked" in clock else {})}


def figures(config: Config, outcome: Outcome) -> dict[str, Any]:
    daq, sim = outcome.reports["daq"], outcome.reports["sim"]
    loops = daq.get("loops", 0)
    acquiring_s = daq.get("seconds") or outcome.seconds  # the DAQ runs a little longer than the steps
    return {
        "transport": config.transport.kind,
        "seconds": round(outcome.seconds, 3),
        "first_step_s": outcome.first_step_s,
        "steps": outcome.counted["steps"] if _restarted(outcome) else sim.get("steps", 0),
        "steps_not_made": outcome.counted["steps_not_made"],
        "loops": loops,
        "bytes": daq.get("bytes", 0),
        "blocks": daq.get("blocks", 0),
        "ms_per_loop": round(1e3 * acquiring_s / loops, 4) if loops else 0.0,
        "deadline_misses": sim.get("deadline_misses", 0),
        "skipped": sim.get("skipped", 0),
        "stale_steps": sim.get("stale_steps", 0),
        "starved_steps": sim.get("starved_steps", 0),
        "paused_steps": sim.get("paused_steps", 0),
        "diverged_steps": sim.get("diverged_steps", 0),
        "clipped_steps": sim.get("clipped_steps", 0),
        "capped_steps": sim.get("capped_steps", 0),
        "balance": balance(outcome).as_dict(),
        "wire": _wire(daq, sim, _restarted(outcome)),
        **{key: sim.get(key, _NOTHING) for key in HISTOGRAMS},
        "hops_us": sim.get("hops_us", {}),
        "bound_us": sim.get("bound_us", 0.0),
        "phase": sim.get("phase", {}),
        "locked_steps": sim.get("locked_steps", 0),
        "holdover_steps": sim.get("holdover_steps", 0),
        "waited_steps": sim.get("waited_steps", 0),
        "rehearsal": {
            "us": sim.get("rehearsal_us", _NOTHING),
            **{key: sim.get(key, 0) for key in ("rehearsed_steps", "not_rehearsed", "late_rehearsals", "spun_ns")},
        },
        "clock": sim.get("clock", {}),
        "ring_reader": outcome.counted,
        "received": sim.get("received"),
        "doors": {role: _door(report) for role, report in (("daq", daq), ("sim", sim))},
        "not_newest": sim.get("not_newest", 0),
        "reused": sim.get("reused", 0),
        "epochs": sim.get("epochs", 0),
        "implausible": daq.get("implausible", 0),
        "saturated": daq.get("saturated", 0),
        "source_lost": daq.get("lost", 0),
        "source": daq.get("source", {}),
        "effort": daq.get("effort"),  # None: the source has none
        "axis_efforts": {name: daq[name] for name in (each.name for each in AXIS_EFFORTS) if name in daq},
        "notices": outcome.notices,
        "deaths": [dataclasses.asdict(crash) for crash in outcome.crashes],
        "record": outcome.record,
        "look_ahead": outcome.reports.get("look_ahead"),  # None: there was none, or it did not live to the end
        "view": outcome.reports.get("view"),  # None: there was none, or it did not live to the end
        "ended": outcome.failure or sim.get("ended", "unknown"),
    }


def printed(result: dict[str, Any]) -> list[Section]:
    """The sections of a run for the terminal; `answers` are its last lines."""
    found = [histogram_table("Times in us", {title: result[key] for key, title in HISTOGRAMS.items()})]
    if result["hops_us"]:
        hops = {title: result["hops_us"][hop] for hop, title in HOPS.items()}
        found.append(histogram_table("Where the age comes from, in us: the first four add up to it", hops))
    if result["effort"]:
        hops = {title: result["effort"]["round_trip_us"][hop] for hop, title in ROUND_TRIP.items()}
        found.append(histogram_table("Round trip in us: the last five add up to it", hops))
    sections = [Section(each.title, [replace(each, title="")], on="terminal") for each in found]
    lines = [*_effort_lines(result), *_phase_lines(result), *_step_lines(result), *_block_lines(result)]
    return [*sections, Section("", lines, on="terminal")]


def _effort_lines(result: dict[str, Any]) -> Iterator[Line]:
    if not result["effort"]:
        return
    yield _effort_line(result["effort"])
    for name, effort in result["axis_efforts"].items():
        trip = effort["round_trip_us"]["round_trip"]
        delay = f", round trip p50 {trip['p50']:.0f}, p99 {trip['p99']:.0f} us" if trip["n"] else ""
        yield f"{name}: {_effort_line(effort)}{delay}"


def _phase_lines(result: dict[str, Any]) -> Iterator[Line]:
    yield _phase_line(result)
    if line := _rehearsal_line(result):
        yield line
    bound, age = result["bound_us"], result["age_us"]
    if bound:
        yield f"every age is known to ± {bound:.0f} us: the DAQ's clock is another host's"
        if bound > age["p50"]:
            yield warn("the bound is larger than the age itself: the ages say little")


def _step_lines(result: dict[str, Any]) -> Iterator[Line]:
    yield (
        f"{result['steps']} steps over {result['transport']}, {result['deadline_misses']} deadline misses,"
        f" {result['skipped']} skipped, {result['stale_steps']} with stale input,"
        f" {result['capped_steps']} with iterations capped"
    )
    troubles = {
        "starved_steps": "not made for want of fresh input",
        "diverged_steps": "in which the model diverged",
        "clipped_steps": "with input beyond its limits",
    }
    if any(result[key] for key in troubles):
        yield "steps " + ", ".join(f"{text}: {result[key]}" for key, text in troubles.items() if result[key])
    if result["source_lost"] or any(result["source"].values()):
        own = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in result["source"].items())
        yield f"at the source: {result['source_lost']} scans lost" + f"; {own}" * bool(own)
    yield from map(bad, events(result))
    for process, why in {crash["process"]: crash["why"] for crash in result["deaths"]}.items():
        yield f"the last crash of {TITLES.get(process, process)}: {why}"


def _block_lines(result: dict[str, Any]) -> Iterator[Line]:
    if wire := result["wire"]:
        yield f"on the wire: {wire['sent']} sent, {wire['received']} received, {wire['overtaken']} overtaken"
    count = result["balance"]
    sums = (
        f"{count['produced']} produced = {count['used']} used + {count['superseded']} superseded + {count['lost']} lost"
    )
    yield good(f"balance closes: {sums}") if count["closes"] else bad(f"balance does not close: {sums}")
    if result["look_ahead"]:
        yield from prediction_lines(result["look_ahead"])
    if result["record"]:
        yield _record_line(result["record"])


def answers(result: dict[str, Any]) -> list[Line]:
    """The last lines: was it in time, how old were the inputs, what was lost, where is the record."""
    steps, late, skipped = result["steps"], result["deadline_misses"], result["skipped"] + result["steps_not_made"]
    time = f"all {steps} steps"
    if late or skipped:
        time = f"{steps - late} of {steps + skipped} steps; {late} ended too late, {skipped} were not made"
    age, stale = result["age_us"], result["stale_steps"]
    old = f"{age['p50']:.0f} us old (median), at most {age['max']:.0f} us" if age["n"] else "none was used"
    count = result["balance"]
    lines = [
        f"in time: {time}",
        f"inputs: {old}; " + (f"stale in {stale} steps" if stale else "never stale"),
        f"lost: {count['lost'] or 'nothing'} of {count['produced']} blocks",
    ]
    if result["reused"]:
        lines[1] += f"; {result['reused']} steps used a block again, for no newer one was there"
    record = result["record"]
    return [*lines, f"record: {(record or {}).get('file') or 'none'}"]


def prediction_lines(ahead: dict[str, Any]) -> list[str]:
    """What was predicted, how far off it was, and whether warnings came true."""
    if not any(ahead["predictions"].values()):
        return ["look ahead: no future was computed"]
    rates = ", ".join(
        f"{count} {kind} ({ahead['rate_hz'][kind]:g} a second)" for kind, count in ahead["predictions"].items()
    )
    cost = ahead["cost_ms"]
    lines = [
        f"look ahead by {ahead['horizon_s']:g} s: {rates} futures; each took {cost['p50']:.1f} ms (median),"
        f" {cost['p99']:.1f} ms (p99); {ahead['left_out']} left out"
    ]
    for kind, off in ahead["off_m"].items():
        found = "; ".join(
            f"after {after} {m['p50']:.2f} m (p90 {m['p90']:.2f}, p99 {m['p99']:.2f})" for after, m in off.items()
        )
        lines.append(f"the path of the {kind} future was off by {found}")
    lead = f", {ahead['lead_s']['least']:.2f} s before it at least" if ahead["lead_s"] else ""
    lines.append(
        f"{ahead['warnings']} warnings: {ahead['came_true']} came true{lead}, {ahead['false_alarms']} did not;"
        f" control was lost {ahead['losses']} times, {ahead['unwarned']} without a warning"
    )
    return lines


def _effort_line(effort: dict[str, Any]) -> str:
    line = (
        f"{effort['handed_over']} efforts handed over from {effort['steps_used']} steps, {effort['limited']} clipped"
        f" to the limit, {effort['slewed']} limited by the slew, {effort['zeroed']} watchdog trips"
    )
    if effort["zeroed"] and not effort.get("fresh", True):
        line += ", the last with the end of the steps"
    if effort["steps_skipped"]:
        line += f", {effort['steps_skipped']} steps skipped on a change of ring"
    if effort.get("lowered_steps"):
        line += f", {effort['lowered_steps']} steps lowered, for the delay was longer than limits hold for"
    if "energy" not in effort:
        return line
    steps = effort["active_steps"]
    port = f"active in {steps} steps" if steps else "passive"
    return (
        f"{line}; the port was {port}, its energy {effort['energy']:.3g} J, {effort['least_energy']:.3g} J at least,"
        f" {effort['damped_steps']} steps damped"
    )


def _record_line(record: dict[str, Any]) -> Line:
    where = record.get("file") or "no file"
    if record.get("parts", 1) > 1:
        where += f", the last of {record['parts']} parts"
    if not record["whole"]:
        return bad(f"record not whole: {record['state']} ({where})")
    counts = ", ".join(f"{t['recorded']} {name}" for name, t in record["topics"].items() if t["recorded"])
    text = f"{counts}; {record['bytes'] / 1e6:.1f} MB in {where}"
    return warn(f"record {record['state']}: {text}") if record.get("deleted_parts") else good(f"record whole: {text}")


def _phase_line(result: dict[str, Any]) -> str:
    phase = result["phase"]
    if phase.get("mode") != "locked":
        return "phase: free, the steps follow the local timer"
    return (
        f"phase: locked in {result['locked_steps']} of {result['steps']} steps, {phase['target_us']:.0f} us behind the"
        f" samples; the DAQ's second is {phase['period_ppm']:+.1f} ppm longer than ours"
    )


def _rehearsal_line(result: dict[str, Any]) -> str:
    """The line on rehearsals; empty if nothing was rehearsed or spun."""
    of = result["rehearsal"]
    if not of["rehearsed_steps"] and not of["spun_ns"]:
        return ""
    late = f", {of['late_rehearsals']} of them ended after the instant" if of["late_rehearsals"] else ""
    busy_s = 1e-6 * of["us"]["mean"] * of["us"]["n"]
    of_time = 100 / result["seconds"] if result["seconds"] else 0.0
    return (
        f"{of['rehearsed_steps']} steps rehearsed, {of['us']['p50']:.0f} us each{late}: {busy_s * of_time:.1f} % of the"
        f" time; {1e-9 * of['spun_ns'] * of_time:.1f} % spun"
    )


def histogram_table(title: str, rows: dict[str, dict[str, Any]]) -> Table:
    """A table without the hops that this run does not have, such as a wire within one host; with all if it has none."""
    there = {name: row for name, row in rows.items() if row["n"]} or rows
    keys = ("p50", "p90", "p99", "p999", "max")
    cells = [(name, str(row["n"]), *(f"{row[k]:.1f}" for k in keys)) for name, row in there.items()]
    return Table(("", "n", "p50", "p90", "p99", "p99.9", "max"), cells, title)
