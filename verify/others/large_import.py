"""A measurement of ten million rows: `python -m verify large-import`.

A CSV file is written and imported in a process of its own; what is promised is its memory a row, beside what its blocks
and readings take in the record, and that it says how far it is. The same rows are then asked for without a map, which
lists what may be mapped and its ranges.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from verify import ROOT
from verify.measure import Row, at_least, at_most, figure

_MOST_BYTES = 400.0  # of memory a row: its blocks, its readings, and both once more while they are written
_CHUNK = 100_000
_IMPORT = """
import resource, sys
from pathlib import Path
from tandem.records.exchange.errors import ExchangeError
from tandem.records.exchange.importer import Options, import_file
file, config, maps = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
before, shares = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
overrides = ["sim.machine=vehicles/buggy_single_track.toml"]
runs = file.parent / "runs"
options = Options(file, config, True, maps, ["yaw_rate=r"], overrides=overrides, runs=runs, rate_hz=1000.0)
try:
    import_file(options, lambda text, share: shares.append(share))
except ExchangeError as error:
    print(error, file=sys.stderr)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak - before, len(shares))
"""


def large_import(rows: int = 10_000_000) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "m.csv"
        with open(file, "w") as out:
            out.write("t [s],angle [deg],accel [%],brk [bar],r [deg/s]\n")
            for first in range(0, rows, _CHUNK):
                k = np.arange(first, min(first + _CHUNK, rows))
                wave = np.sin(1e-3 * k)
                table = np.column_stack([1e-3 * k, 20.0 * wave, 40.0 + 10.0 * wave, 0.0 * wave, 5.0 * wave])
                np.savetxt(out, table, fmt="%.3f", delimiter=",")
        yield figure("file", file.stat().st_size / 2**20, "MiB")
        maps = ["steering=angle", "throttle=accel", "brake=brk"]
        for what, columns in (("imported", maps), ("asked what may be mapped", maps[:2])):
            begun = time.perf_counter()
            command = [sys.executable, "-c", _IMPORT, str(file), str(ROOT / "configs" / "drive.toml"), *columns]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            grown, progress = (int(word) for word in done.stdout.split()[-2:])
            yield figure(f"{rows} rows {what}", time.perf_counter() - begun, "s")
            yield at_most(f"{what}: memory a row", 1024.0 * grown / rows, _MOST_BYTES, "bytes")
            yield at_least(f"{what}: times that it says how far it is", progress, rows / _CHUNK)
