"""OpenCRG files for tests, and what they mean, both written down as plainly as possible."""

import struct
from collections.abc import Sequence
from math import cos, hypot, sin

import numpy as np

HEAD_END = "$" * 72


def crg_bytes(
    form: str,
    increment: float,
    channels: Sequence[str],
    rows: np.ndarray,
    road: Sequence[str] = (),
    more: Sequence[str] = (),
) -> bytes:
    """A file with the given channels; `road` are lines of $ROAD_CRG, `more` whole sections."""
    head = ["* a remark", "$CT", "made for a test", "$", "$ROAD_CRG   ! with a remark"]
    head += [f"REFERENCE_LINE_INCREMENT = {increment!r}", *road, "$!*****", *more, "$KD_Definition", f"#:{form}"]
    head += [f"U:reference line u,m,0,{increment!r}", *(f"D:{channel}" for channel in channels), "$", HEAD_END]
    return ("\n".join(head) + "\n").encode() + data_bytes(form, rows)


def data_bytes(form: str, rows: np.ndarray) -> bytes:
    if form in ("KRBI", "KDBI"):
        code, per_record = (">f", 20) if form == "KRBI" else (">d", 10)
        values = [float(value) for value in rows.ravel()]
        values += [float("nan")] * (-len(values) % per_record)
        return b"".join(struct.pack(code, value) for value in values)
    width, per_line, digits = (10, 8, 7) if form == "LRFI" else (20, 4, 16)
    lines = []
    for row in rows:
        fields = ["*" * 9 if np.isnan(value) else f"{value:.{digits}f}"[: width - 1] for value in row]
        fields = [field.rjust(width) for field in fields]
        lines += ["".join(fields[k : k + per_line]) for k in range(0, len(fields), per_line)]
    return ("\n".join(lines) + "\n").encode()


def polyline(x: float, y: float, increment: float, headings: Sequence[float]) -> list[tuple[float, float]]:
    """Points of a reference line: each heading is that of the piece that ends in the next point."""
    points = [(x, y)]
    for heading in headings:
        x, y = x + increment * cos(heading), y + increment * sin(heading)
        points.append((x, y))
    return points


def beside(points: list[tuple[float, float]], k: int, v: float) -> tuple[float, float]:
    """The place at v left of point k of the line, square to the mean direction of the pieces that meet there."""
    (ax, ay), (bx, by) = points[max(k - 1, 0)], points[min(k + 1, len(points) - 1)]
    length = hypot(bx - ax, by - ay)
    x, y = points[k]
    return x - v * (by - ay) / length, y + v * (bx - ax) / length
