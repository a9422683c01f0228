"""`tandem latency`: the transfer per transport, with its yardsticks measured in the same run."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tandem.report import HISTOGRAMS, SOURCE_MS_PER_LOOP, figures, histogram_table


def measure(
    file: Path, overrides: list[str], transports: tuple[str, ...], seconds: float, console: Console
) -> tuple[dict[str, Any], int]:
    """({"runs": [...], "bare": {...}}, exit code). The bare figures come first, on the idle machine."""
    from tandem.bare import bare_ipc, bare_lateness
    from tandem.cli import _checked, _run

    config = _checked(file, overrides)
    with console.status(f"bare sleeping loop, {seconds:g} s"):
        lateness = bare_lateness(config, seconds)
    with console.status(f"bare ZeroMQ and msgpack over ipc, {seconds:g} s"):
        ipc = bare_ipc(config, seconds)
    runs, code = [], 0
    for transport in transports:
        settings = [*overrides, f'transport.kind="{transport}"', "sim.probe_rest_ms=0"]
        checked, outcome = _run(file, settings, seconds, transport, console)
        runs.append(figures(checked, outcome))
        code = code or outcome.code or int(not runs[-1]["balance"]["closes"])
    return {"runs": runs, "bare": {"ipc_us": ipc, "lateness_us": lateness}}, code


def print_latency(console: Console, result: dict[str, Any]) -> None:
    bare = result["bare"]
    rows = {"source, ms per loop": _constant(SOURCE_MS_PER_LOOP * 1e3), "bare ZeroMQ + msgpack, ipc": bare["ipc_us"]}
    rows |= {f"tandem, {run['transport']}": run["transfer_us"] for run in result["runs"]}
    console.print(histogram_table("Transfer per loop, us", rows))
    for key in ("age_us", "step_us", "lateness_us"):
        rows = {run["transport"]: run[key] for run in result["runs"]}
        if key == "lateness_us":
            rows = {"bare sleeping loop": bare["lateness_us"], **rows}
        console.print(histogram_table(f"{HISTOGRAMS[key].capitalize()}, us", rows))
    table = Table(title="Loops and blocks", title_justify="left")
    for heading in ("", "s", "loops", "bytes", "blocks", "ms/loop", "steps", "missed", "used", "superseded", "lost"):
        table.add_column(heading, justify="right")
    for run in result["runs"]:
        count = run["balance"]
        cells = [run[k] for k in ("transport", "seconds", "loops", "bytes", "blocks", "ms_per_loop", "steps")]
        cells += [run["deadline_misses"], *(count[k] for k in ("used", "superseded", "lost"))]
        table.add_row(*map(str, cells))
    console.print(table)


def _constant(value: float) -> dict[str, Any]:
    return {"n": 5, **dict.fromkeys(("p50", "p90", "p99", "p999", "max"), value)}
