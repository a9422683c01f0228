"""Small drawings of who gives what to whom, one for each guide that connects tandem with something else, and curves.

    python docs/diagrams.py            writes docs/images/NAME.svg of every row below
    python docs/diagrams.py --curves   and the curves that guides show, of runs (the extra `plot`)

A drawing is a row of boxes: title, what it is, and what goes on to the next.
"""

import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "images"
_HIGH, _GAP, _LETTER, _EDGE = 118, 104, 7.4, 14  # px
_STYLE = """
    .box { fill: #ffffff; stroke: #30506b; stroke-width: 1.6; }
    .ours { fill: #eef4f8; }
    .arrow { stroke: #30506b; stroke-width: 2; fill: none; marker-end: url(#tip); }
    .title { font-weight: bold; fill: #30506b; }
    .small { font-size: 11.5px; fill: #44596a; }
"""
_TIP = '<path d="M0,0 L6,3 L0,6 z" fill="#30506b"/>'

# a title with a star is ours; what stands behind a box goes to the next
Box = tuple[str, str, str]
DRAWINGS: dict[str, tuple[Box, ...]] = {
    "calibration": (
        ("person", "moves the pedal", "to its stops"), ("device*", "raw counts", "as a drive reads"),
        ("tandem calibrate*", "zero, scale, direction", "a fragment"), ("drive*", "degrees, %, bar", ""),
    ),
    "nidaqmx": (
        ("sensors", "volts, encoder edges", "aiN, ctrN"), ("NI device", "sampled by its clock", "nidaqmx"),
        ("DAQ*", "blocks of counts", "ring"), ("simulator*", "inputs, model", "effort, aoN"), ("actuator", "volts", ""),
    ),
    "can": (
        ("car", "control units", "frames"), ("interface", "SocketCAN and others", "python-can"),
        ("DAQ*", "signals by the DBC", "ring"), ("simulator*", "inputs, model", ""),
    ),
    "gamepad": (
        ("wheel, pedals", "axes of a joystick", "SDL2"), ("DAQ*", "1000 samples a second", "ring"),
        ("simulator*", "the car", "steering torque"), ("motor", "force feedback", ""),
    ),
    "remote": (
        ("sensors", "", ""), ("DAQ host*", "every block, recorded", "TCP, with keys"),
        ("simulator host*", "clocks compared", "newest step"), ("page*", "anywhere", ""),
    ),
    "unattended": (
        ("computer boots", "", "systemd"), ("tandem*", "a unit, restarted", "every run"),
        ("records*", "the oldest go first", "tandem fleet"), ("you", "the next morning", ""),
    ),
    "exchange": (
        ("your log", "CSV, MF4, MATLAB, …", "tandem import"), ("record*", "MCAP", "tandem replay"),
        ("other model*", "the same inputs", "tandem export"), ("your tools", "MCAP, Parquet, MF4", ""),
    ),
    "foxglove": (
        ("run*", "rings in memory", "read only"), ("tandem foxglove*", "a process of its own", "WebSocket"),
        ("Foxglove", "scene, plots, tuning", ""),
    ),
    "ros2": (
        ("run*", "rings in memory", "read only"), ("tandem ros2*", "CDR, no ROS needed", "Zenoh"),
        ("rmw_zenoh router", "", "topics"), ("ROS 2, RViz", "commands come back", ""),
    ),
    "xcp": (
        ("run*", "rings, commands", "read, tune"), ("tandem xcp*", "slave, A2L", "TCP, UDP"),
        ("CANape, INCA, …", "measure, calibrate", ""),
    ),
    "fmu": (
        ("machine*", "its compiled step", "tandem fmu"), ("FMU", "FMI 3.0", "in any tool"),
        ("Simulink, FMPy", "or an FMU of yours", "--allow"), ("run*", "a machine as any other", ""),
    ),
    "your_device": (
        ("microcontroller", "an encoder", "datagrams"), ("your file", "start, read, stop", "counts, instants"),
        ("DAQ*", "ring, wire, record", ""), ("simulator*", "rows of [inputs]", ""),
    ),
    "ensembles": (
        ("study", "a TOML file", "values of each run"), ("all cores*", "or a cluster, a GPU", "rows"),
        ("table*", "Parquet, with units", "report"), ("you", "what moves what", ""),
    ),
    "cluster": (
        ("you", "a study", "TLS, one certificate"), ("Dask scheduler", "gives out runs", "values"),
        ("workers*", "on every host", "rows"), ("table*", "the same file", ""),
    ),
    "identification": (
        ("records", "inputs, measured", "windows"), ("machine*", "with its derivatives", "residuals"),
        ("search*", "Gauss–Newton", "parameters"), ("report*", "intervals, warnings", ""),
    ),
    "gpu": (
        ("step*", "Python, compiled", "LLVM IR"), ("LLVM", "a thread a copy", "PTX"),
        ("GPU", "thousands of copies", "DLPack"), ("PyTorch, table", "the same memory", ""),
    ),
    "validation": (
        ("log", "of the real machine", "windows"), ("tandem identify*", "parameters, intervals", "fitted ones"),
        ("tandem validate*", "the unused windows", "tolerances"), ("verdict", "valid, or why not", ""),
    ),
}  # fmt: skip


def drawing(boxes: tuple[Box, ...]) -> str:
    parts, x = [], float(_EDGE)
    for k, (title, about, onward) in enumerate(boxes):
        shown = title.rstrip("*")
        wide = max(len(shown) * _LETTER * 1.1, len(about) * _LETTER * 0.85) + 2 * _EDGE
        kind = "box ours" if title.endswith("*") else "box"
        middle = x + wide / 2
        parts.append(f'<rect class="{kind}" x="{x:.0f}" y="34" width="{wide:.0f}" height="58" rx="7"/>')
        parts.append(_text("title", middle, 59 if about else 68, shown))
        if about:
            parts.append(_text("small", middle, 79, about))
        x += wide
        if k < len(boxes) - 1:
            gap = max(_GAP, len(onward) * _LETTER * 0.85 + _EDGE)
            parts.append(f'<path class="arrow" d="M{x:.0f},63 L{x + gap - 2:.0f},63"/>')
            parts.append(_text("small", x + gap / 2, 54, onward))
            x += gap
    wide = x + _EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{_HIGH}" viewBox="0 0 {wide:.0f} {_HIGH}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="14" text-anchor="middle">\n'
        f"  <style>{_STYLE}  </style>\n"
        f'  <defs><marker id="tip" markerWidth="6" markerHeight="6" refX="5.5" refY="3" orient="auto">{_TIP}</marker>'
        f'</defs>\n  <rect width="{wide:.0f}" height="{_HIGH}" fill="#ffffff"/>\n  ' + "\n  ".join(parts) + "\n</svg>\n"
    )


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>' if text else ""


def curves() -> None:
    sys.path.insert(0, str(ROOT))
    import numpy as np

    import tandem

    pulled = tandem.load_machine("mass_spring").run({"handle": 0.05}, steps=200)
    pulled.plot("position").save(OUT / "library.png")
    t = 0.005 * np.arange(1600)
    angle = np.clip(8.7 * (t - 5.0), 0.0, 0.6)  # rad of the hand wheel, after the speed has settled
    car = tandem.load_machine("buggy").run({"prescribed_speed": np.minimum(3.0 * t, 12.0), "steering_angle": angle})
    car.plot("yaw_rate", "ay", "roll").save(OUT / "iso.png")


if __name__ == "__main__":
    for name, boxes in DRAWINGS.items():
        (OUT / f"{name}.svg").write_text(drawing(boxes), encoding="utf-8")
    if "--curves" in sys.argv:
        curves()
