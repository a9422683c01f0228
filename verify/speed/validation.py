"""What is measured against others, one after the other, and a page of it: python verify/speed/validation.py

    --only WORDS     only what has these words in its command
    --share 0.1      so much of the usual duration of each; for trying it out, and the page says so
    --out FILE       the page (default: build/validation.md, which `make docs` takes into the site)

The page has the date, the machine, how busy it was, and what every command printed and ended with: nothing is picked
out or rounded. A command that fails, or is not finished after half an hour, is a row like the others. `make bench` runs
it; some ten minutes on a quiet machine. Exit code 1 if a command failed.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tandem.records.provenance import machine_facts  # noqa: E402

PAGE = ROOT / "build" / "validation.md"
_PYTHON, _TANDEM = (sys.executable,), (sys.executable, "-m", "tandem")
_SHOWN = ("utc", "software", "sources", "processor", "cores", "kernel", "python", "numba", "numpy")
_LIMIT_S = 1800.0
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Measurement:
    question: str
    command: tuple[str, ...]
    seconds: float = 0.0  # of its own duration, where it takes one

    def words(self, share: float) -> list[str]:
        return [*self.command, *(("--seconds", f"{self.seconds * share:g}") if self.seconds else ())]

    def shown(self, share: float) -> str:
        words = self.words(share)
        return " ".join(["tandem", *words[3:]] if words[1:3] == ["-m", "tandem"] else ["python", *words[1:]])


MEASUREMENTS = (
    Measurement("What the ring carries, beside other ways", (*_PYTHON, "-m", "verify.path.ring"), 60),
    Measurement("Does every step use the newest block?", (*_PYTHON, "-m", "verify.path.correspondence"), 50),
    Measurement("From a sample to the result, at any phase", (*_TANDEM, "latency"), 60),
    Measurement("The same with the steps locked to the blocks", (*_TANDEM, "latency", "--phase"), 60),
    Measurement("Derivatives of an encoder", (*_PYTHON, "-m", "verify.path.derivatives")),
    Measurement("Multibody formulations, beside other codes", (*_TANDEM, "bench", "multibody")),
    Measurement("ISO manoeuvres", (*_TANDEM, "iso", "all")),
    Measurement("A step in an FMU, beside the bare step", (*_PYTHON, "-m", "verify.others.fmu")),
)


def load_average() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def head(share: float) -> list[str]:
    facts = machine_facts() | {"cores": str(os.cpu_count())}
    shortened = f" **Of the usual durations only {share:g}.**" if share != 1.0 else ""
    rows = [f"| {key} | {facts[key]} |" for key in _SHOWN if key in facts]
    return [
        "# Validation",
        "",
        f"Made by `make bench`: what each command printed, as it came.{shortened}",
        "",
        *("| | |", "|---|---|", *rows),
        "",
    ]


def measured(measurement: Measurement, share: float) -> tuple[bool, list[str]]:
    before, begin = load_average(), time.monotonic()
    code, printed, complaint = _ran(measurement.words(share))
    took = time.monotonic() - begin
    text = _STYLE.sub("", printed).strip() or "(nothing)"
    if code != 0:
        text += "\n" + _STYLE.sub("", complaint).strip()[-2000:]
    result = "Exit code 0" if code == 0 else f"**Failed** with exit code {code}"
    if isinstance(code, str):
        result = f"**Failed**: {code}"
    lines = [
        f"## {measurement.question}",
        "",
        f"`{measurement.shown(share)}`: {result}, {took:.0f} s, load {before} before and {load_average()} after.",
        "",
        *("```text", text.replace("```", "'''"), "```"),
        "",
    ]
    return code == 0, lines


def _ran(words: list[str]) -> tuple[int | str, str, str]:
    """(exit code, or why there is none, what it printed, what it wrote to standard error)"""
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as late:
        printed, complaint = ((text or b"").decode(errors="replace") for text in (late.stdout, late.stderr))
        return f"not finished after {_LIMIT_S / 60:g} minutes", printed, complaint
    except OSError as error:
        return f"{words[0]}: {error.strerror}", "", ""
    return done.returncode, done.stdout, done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only what has these words in its command")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual durations (default: 1)")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page (default: build/validation.md)")
    asked = parser.parse_args()
    chosen = [m for m in MEASUREMENTS if asked.only in m.shown(asked.share)]
    if not chosen or not 0.0 < asked.share <= 1.0:
        parser.error(f"--only {asked.only!r}, --share {asked.share:g}: nothing is measured so")
    page, failed = head(asked.share), []
    for number, measurement in enumerate(chosen, 1):
        print(f"{number} of {len(chosen)}: {measurement.shown(asked.share)}", flush=True)
        good, lines = measured(measurement, asked.share)
        print("\n".join(lines[2:]), flush=True)
        page += lines
        failed += [] if good else [measurement.shown(asked.share)]
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text("\n".join(page))  # after each: what was measured stays if the next is interrupted
    print(f"{asked.out}: {len(chosen) - len(failed)} of {len(chosen)} measured; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
