"""A run's acquisition beside that of the source: P. Gallo, *Input synchronization of a real car and its real-time
simulator*, 2012.
"""

from typing import Any

from tandem.reports.html.figures import RunData
from tandem.reports.html.sections import section, table
from tandem.reports.html.style import GREY, HOPS
from tandem.reports.html.svg import WIDE, ranges
from tandem.reports.html.words import Raw, e, format_count, format_us
from tandem.reports.report import Section, Table

SOURCE_MS_PER_LOOP = 0.43  # of the source
# Table 4.5 of the source: seconds, loops, bytes, blocks of five manoeuvres
SOURCE = (
    (50, 125229, 1117416, 139677),
    (50, 120857, 1080528, 135066),
    (50, 102720, 918152, 114769),
    (50, 149883, 1342368, 167796),
    (50, 100413, 897064, 112133),
)


def beside_source(result: dict[str, Any]) -> Section:
    """For the terminal: the means of the source beside one run."""
    runs = len(SOURCE)
    means = [f"{sum(row[k] for row in SOURCE) / runs:.0f}" for k in range(4)]
    ours = [f"{result['seconds']:.1f}", *(result[key] for key in ("loops", "bytes", "blocks"))]
    rows = [*zip(("seconds", "loops", "bytes", "blocks"), means, ours, strict=True)]
    rows.append(("ms per loop", f"{SOURCE_MS_PER_LOOP}", f"{result['ms_per_loop']:.2f} (waits for a block)"))
    transfer = f"{result['transfer_us']['p50']:.1f} (median)"
    rows.append(("transfer, us", f"{SOURCE_MS_PER_LOOP * 1e3:.0f} (its ms per loop)", transfer))
    table = Table(("", "source, mean of five", "this run"), rows)
    return Section("Acquisition beside the source", [table], on="terminal")


def source_section(runs: list[RunData], bare: dict[str, Any]) -> Section:
    rows: list[list[Any]] = [
        [f"source, manoeuvre {k}", *map(format_count, row), f"{1e3 * row[0] / row[1]:.2f}", "–"]
        for k, row in enumerate(SOURCE, 1)
    ]
    mean = [round(sum(column) / len(SOURCE)) for column in zip(*SOURCE, strict=True)]
    rows.append(["source, mean", *map(format_count, mean), f"{SOURCE_MS_PER_LOOP:.2f}", "–"])
    constant = dict.fromkeys(("p50", "p99", "p999", "max"), SOURCE_MS_PER_LOOP * 1e3)
    spread: list[tuple[str, dict[str, Any], str]] = [("source, per loop", constant, GREY)]
    pair = bare.get("ipc_us") or {}
    if pair.get("n"):
        spread.append(("bare ZeroMQ pair", pair, GREY))
    for run in runs:
        figures, transfer = run.figures, run.figures.get("transfer_us") or {}
        cells = [format_count(figures.get(key, "–")) for key in ("seconds", "loops", "bytes", "blocks", "ms_per_loop")]
        rows.append(
            [Raw(f"<strong>{e(run.label)}</strong>"), *cells, format_us(transfer["p50"]) if transfer.get("n") else "–"]
        )
        if transfer.get("n"):
            spread.append((run.label, transfer, HOPS["wire"][0]))
    headings = ("", "seconds", "loops", "bytes", "blocks", "ms per loop", "transfer, median")
    lead = (
        "Table 4.5 of the source (P. Gallo, 2012) beside ours. The source polls, so its loops say how long a transfer"
        " takes; ours waits for a block, so its loops say how often blocks come, and the transfer is measured itself."
    )
    return section(
        "source",
        "Beside the source",
        lead,
        table(headings, rows, "source"),
        ranges("transfer: median, p99, p99.9, largest", spread, WIDE),
    )
