"""200 records with 5 damaged, replayed as a fleet: `python -m checks.fleet_drill`.

Each record is a run of its own: a golden one replayed with another mass and saved. Counted are 195 replays that are
identical to the bit and 5 rows that say what is wrong. Prints one line; exit code 1 if it is not so.
"""

import sys
import tempfile
import time
from pathlib import Path

from tandem.ensembles.fleet import fleet
from tandem.replay import Asked, replay_run
from tandem.replay_save import save

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden" / "single_track.mcap"
RECORDS, DAMAGED = 200, 5


def make(folder: Path) -> None:
    for k in range(RECORDS):
        done = replay_run(GOLDEN, Asked(overrides=[f"sim.parameters.mass={700 + k}"]))
        file = save(done, folder / f"{k:03d}", {})
        if k < DAMAGED:  # from the head to nearly all of it
            content = file.read_bytes()
            file.write_bytes(content[: len(content) * (k + 1) // (DAMAGED + 1)])


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        runs, out = Path(place) / "runs", Path(place) / "out"
        make(runs)
        begun = time.monotonic()
        found = fleet(runs, out=out)
        seconds = time.monotonic() - begun
        counts = found.results.counts()
        again = fleet(runs, out=out).made_now
        print(f"{RECORDS} records, {DAMAGED} damaged: {counts} in {seconds:.0f} s; {again} made again")
        silent = [k for k in range(DAMAGED) if not found.results.errors.get(k)]
        return int(counts.get("identical") != RECORDS - DAMAGED or bool(silent))


if __name__ == "__main__":
    sys.exit(main())
