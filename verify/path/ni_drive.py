"""A drive on the NI source: the double as the device, NI's client, both services, a whole minute of real time.

    python -m verify.path.ni_drive --seconds 60

Prints what the drive counted, and says how much of it is the double's doing: it is a Python process that shares the
machine with the drive. Exit code 1 unless no scan was lost.
"""

import argparse
import json
import subprocess
import sys
import tempfile

from tests.daqmx_double.handle import Double
from verify import ROOT

SHOWN = ("seconds", "loops", "blocks", "epochs", "implausible", "steps", "deadline_misses", "stale_steps", "age_us")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ppm", type=float, default=40.0, help="by how much the device's crystal is off")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the configuration")
    parser.add_argument("--json", action="store_true", help="the whole report besides")
    options = parser.parse_args()
    double = Double()
    try:
        double.tell("configure", script="drive", ppm=options.ppm)
        with tempfile.TemporaryDirectory() as runs:
            command = [sys.executable, "-m", "tandem", "drive", "configs/onboard.toml", "--json", "--runs", runs]
            command += ["--seconds", f"{options.seconds:g}", "--set", f"source.server={double.server}"]
            command += [word for setting in options.set for word in ("--set", setting)]
            drive = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        refused = double.tell("state")["refused"]
    finally:
        double.close()
    if drive.returncode != 0:
        print(f"the drive ended with {drive.returncode}")
        return 1
    report = json.loads(drive.stdout)
    if options.json:
        print(json.dumps(report, indent=1))
    for name in SHOWN:
        print(f"{name}: {json.dumps(report.get(name))}")
    print(f"balance: {json.dumps(report['balance'])}")
    print(f"refused by the double: {refused or 'nothing'}")
    return 0 if report["balance"]["lost"] == 0 and report["epochs"] == 1 and not refused else 1


if __name__ == "__main__":
    sys.exit(main())
