"""Tyres of others: nine public property files, and the rows of a rig fitted: `python -m verify tyre-fits`.

Needs TANDEM_REAL_DATA, the folder of measured data with tyres/: nine .tir files and cornering.mat (59 965 rows of free
rolling; neither may lie in this repository as a whole). Every file is read tolerantly, with its version; the rows are
fitted as `tandem tyre fit` does it, and judged by the tenth that the fit did not use, beside the file that was
published for that tyre.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from tandem.machines.car.studies.tyre.figures import against
from tandem.machines.car.studies.tyre.fit import fit
from tandem.machines.car.studies.tyre.rows import read_rows
from tandem.machines.car.tyres.tir import parse_tir, read_tir
from verify.measure import NotHere, Row, at_most, equal, figure, holds
from verify.registry import REAL_DATA

VERSIONS = {
    "MagicFormula52_Parameters": "MF 5.2", "MagicFormula61_Parameters": "MF 6.1", "MagicFormula62_Parameters": "MF 6.2",
    "chrono_Generic_Pac02Tire": "PAC2002", "chrono_HMMWV_Pac02Tire": "PAC2002", "chrono_Sedan_Pac02Tire": "PAC2002",
    "chrono_mf_185_80R14": "PAC2002", "obfuscated": "MF 6.1", "obfuscated_v52": "MF 5.2",
}  # fmt: skip
MOST_LEFT = {"5.2": 0.065, "6.1": 0.05}  # of the rms of the lateral force, in unused rows
MOST_S = 120.0
PUBLISHED = "obfuscated_v52"  # for the tyre of the rows


def tyre_fits() -> Iterator[Row]:
    folder = Path(os.environ[REAL_DATA]) / "tyres"
    if not (folder / "cornering.mat").is_file():
        raise NotHere(f"no tyres/cornering.mat below {REAL_DATA}")
    read = 0
    for name, version in VERSIONS.items():
        tir = read_tir(folder / f"{name}.tir", tolerant=True)
        read += 1
        what = f"{tir.version}, {len(tir.remarks)} remarks" + ", no car can stand on it" * bool(tir.lacks)
        yield holds(f"{name}.tir", tir.version == version, what, version)
    yield equal("files that are read", read, len(VERSIONS))
    rows = read_rows(folder / "cornering.mat")
    yield figure("rows of the rig", len(rows))
    published = against(read_tir(folder / f"{PUBLISHED}.tir", tolerant=True), rows)["fy"]["left"]
    yield figure("lateral force left by the published file, of the rms of all rows", 100.0 * published, "%")
    for version, most in MOST_LEFT.items():
        begun = time.perf_counter()
        fitted = fit(rows, version, {})
        seconds = time.perf_counter() - begun
        lateral = fitted.stages[0]
        yield at_most(f"MF {version}: left in unused rows", 100.0 * lateral["unused"], 100.0 * most, "%")
        yield figure(f"MF {version}: left in the rows that were used", 100.0 * lateral["used"], "%")
        yield at_most(f"MF {version}: fitted in", seconds, MOST_S, "s")
        again = parse_tir(fitted.text, "written.tir")  # strictly
        yield holds(f"MF {version}: the written file is read strictly", again.version == f"MF {version}")
