"""The pictures of the page, made from the real thing in a browser: those of these documents, and every page of every
machine to look at.

    python docs/screenshots.py [--out docs/images] [--pages build/pages] [--only NAME …] [--seconds 12]

Writes live.png, instruments.png, tuning.png and replay.png, 1280 x 720, each at most 200 kB, and smaller ones of the
machines that have a guide (GUIDES), into `--out`; and
MACHINE-TAB-WIDTH.png of every tab, and of the compact page, at 1280 and 1920 px into `--pages`, which is not kept, as
well as those of the record. `--only documents` makes the first four and the record's, `--only piano` those of one
machine.
"""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tandem.view.page_access import DASH  # noqa: E402
from tandem.view.plots import MOST_CHARTS, WHOLE  # noqa: E402
from tests.system.browser import act_until, answer, browser, click, lacking, open_tab, picture, press  # noqa: E402

_MOST_BYTES = 200_000
_SMALL = (960, 540)
_LOADED_S = 4.0  # for everything to be drawn, in software
_RENDERED_S = 1.5  # the same after a change
_RATE = "view.rate_hz=1"  # what draws in software is not to be kept busy
_SIZES = {1280: 720, 1920: 1080}
_TABS = ("controls", "plots", "tune", "scene")
_DOCUMENTS = "documents"
_LONG = ROOT / "build" / "long_weave.toml"  # pages are slow to come where they are drawn in software
_WEAVE = f'source.manoeuvre="{_LONG}"'
_SINGLE_TRACK = "sim.machine=vehicles/buggy_single_track.toml"
_TAKEN_BY_HAND = 'source={kind="page"}'

# every machine, and every kind of page: what makes it
MACHINES = {
    "buggy": ("run", "configs/drive.toml", "--set", _WEAVE),
    "look_ahead": ("run", "configs/drive.toml", "--set", _WEAVE, "--set", "look_ahead.enabled=true"),
    "single_track": ("run", "configs/drive.toml", "--set", _WEAVE, "--set", _SINGLE_TRACK),
    "by_hand": ("run", "configs/page.toml", "--set", _SINGLE_TRACK),
    "twin": ("run", "configs/twin_truth.toml"),
    "observers": ("run", "configs/twin.toml"),
    "swerve": ("run", "configs/haptic_wheel.toml", "--set", _TAKEN_BY_HAND),
    "kart": ("run", "configs/kart.toml"),
    "kart_track": ("run", "configs/kart_wheel.toml"),
    "mass_spring": ("run", "configs/mass_spring.toml"),
    "wall": ("run", "configs/wall.toml", "--set", _TAKEN_BY_HAND),
    "piano": ("run", "configs/piano_page.toml"),
    "piano_octave": ("run", "configs/piano_octave.toml"),
    "piano_multibody": ("run", "configs/piano_multibody.toml", "--set", _TAKEN_BY_HAND),
    "omni_square": ("run", "configs/omni_square.toml"),
    "omni_bench": ("run", "configs/omni_bench.toml"),
    "omni_page": ("run", "configs/omni_page.toml"),
    "tilting": ("run", "configs/tilting.toml"),
    "tilting_observed": ("run", "configs/tilting_observed.toml"),
    "race_car": ("run", "configs/race_car.toml"),
    "mechanism": ("view", "configs/mechanisms/stewart.toml"),
}

# machines whose page stands at the top of a guide, docs/images/NAME.png
GUIDES = (
    "observers",
    "look_ahead",
    "swerve",
    "kart",
    "kart_track",
    "mass_spring",
    "wall",
    "piano",
    "omni_square",
    "mechanism",
    "tilting",
)


@contextmanager
def tandem(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command of ours and the address of its page; ended with Ctrl-C."""
    command = [sys.executable, "-m", "tandem", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        printed = []
        for line in process.stderr:
            printed.append(line)
            if found := re.search(r"the page: (\S+)", line):
                yield process, found[1]
                break
        else:
            raise SystemExit(f"tandem {' '.join(arguments)} serves no page:\n{''.join(printed)}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def keep(page: Any, file: Path) -> None:
    """In all its colours, or as many as fit."""
    from PIL import Image

    picture(page, str(file))
    with Image.open(file) as taken:
        whole = taken.convert("RGB")
    for colours in (0, 256, 128, 64):
        fewer = whole.quantize(colours) if colours else whole
        fewer.save(file, optimize=True)
        if file.stat().st_size <= _MOST_BYTES:
            break
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB", flush=True)


def keep_small(page: Any, file: Path) -> None:
    """For the top of a guide."""
    from PIL import Image

    picture(page, str(file))
    with Image.open(file) as taken:
        small = taken.convert("RGB").resize(_SMALL, Image.Resampling.LANCZOS)
    small.quantize(128).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB", flush=True)


def open_page(chromium: Any, where: str) -> Any:
    page = chromium.new_page(viewport={"width": 1280, "height": 720})
    there = page.get_by_role("tab").or_(page.get_by_role("button", name="reset"))  # a mechanism's page has no tabs
    act_until(lambda: answer(page, where), there.count, lambda: f"{page.url} shows no controls", 30.0)
    time.sleep(_LOADED_S)
    # viser says that there is no graphics card here; those who read have one
    for button in page.locator(".mantine-Notification-closeButton").all():
        with contextlib.suppress(Exception):  # it goes by itself, too
            click(button)
    return page


def documents(chromium: Any, options: argparse.Namespace) -> None:
    """A drive, its plots, its tuning, and its record beside another run: what docs/ shows."""
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as runs:
        settings = ["name=screenshots", f"view.port={options.port}", _WEAVE]
        words = [word for setting in settings for word in ("--set", setting)]
        with tandem("drive", "--seconds", "0", "--json", "--runs", runs, *words) as (drive, where):
            page = open_page(chromium, where)
            time.sleep(options.seconds)
            keep(page, options.out / "live.png")
            for tab, name in (("plots", "instruments"), ("tune", "tuning")):
                open_tab(page, tab)
                time.sleep(1.0)
                keep(page, options.out / f"{name}.png")
            page.close()
            drive.send_signal(signal.SIGINT)
            assert drive.stdout is not None
            record = json.loads(drive.stdout.read())["record"]["file"]
        against = ("--against", "ideal", "--delay-ms", "50", "--port", str(options.port))
        with tandem("view", record, *against) as (_, where):
            page = open_page(chromium, where)
            press(page.get_by_role("slider").first, "End")
            time.sleep(_LOADED_S)
            keep(page, options.out / "replay.png")
            tabs(page, "record", options.tabs, options)
            page.close()
        with tandem("view", record, "--port", str(options.port)) as (_, where):
            page = open_page(chromium, where)
            open_tab(page, "plots")
            for label, choice in (("shown", WHOLE), ("charts", str(MOST_CHARTS))):
                field = page.get_by_role("textbox", name=label, exact=True)
                click(field)
                click(page.get_by_role("option", name=choice, exact=True))
            time.sleep(_LOADED_S)
            tabs(page, "record_whole", ("plots",), options)
            page.close()


def tabs(page: Any, name: str, wanted: Collection[str], options: argparse.Namespace) -> None:
    """A picture of each, in each size."""
    there = page.get_by_role("tab").all_inner_texts()
    for width in options.widths:
        page.set_viewport_size({"width": width, "height": _SIZES[width]})
        for tab in [tab for tab in there if tab in wanted]:
            open_tab(page, tab)
            time.sleep(_RENDERED_S)
            picture(page, str(options.pages / f"{name}-{tab}-{width}.png"))
            print(f"{name}-{tab}-{width}.png", flush=True)


def compact(chromium: Any, where: str, name: str, options: argparse.Namespace) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": _SIZES[1280]})
    answer(page, f"{where}&layout={DASH}")
    for width in options.widths:
        page.set_viewport_size({"width": width, "height": _SIZES[width]})
        time.sleep(_RENDERED_S)
        picture(page, str(options.pages / f"{name}-{DASH}-{width}.png"))
    page.close()


def every_tab(chromium: Any, name: str, options: argparse.Namespace) -> None:
    command, *words = MACHINES[name]
    if command == "view":
        words += ["--port", str(options.port)]
    else:
        words += ["--seconds", "0", "--no-record", "--set", f"name=screenshots_{name}"]
        words += ["--set", f"view.port={options.port}", "--set", "view.enabled=true", "--set", _RATE]
    with tandem(command, *words) as (_, where):
        page = open_page(chromium, where)
        time.sleep(options.seconds)
        if name in GUIDES:
            keep_small(page, options.out / f"{name}.png")
        tabs(page, name, options.tabs if command == "run" else page.get_by_role("tab").all_inner_texts(), options)
        page.close()
        if command == "run":
            compact(chromium, where, name, options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--pages", type=Path, default=ROOT / "build" / "pages")
    parser.add_argument("--only", nargs="*", default=[_DOCUMENTS, *MACHINES], choices=[_DOCUMENTS, *MACHINES])
    parser.add_argument("--tabs", nargs="*", default=_TABS, choices=_TABS)
    parser.add_argument("--widths", nargs="*", type=int, default=[*_SIZES], choices=[*_SIZES])
    parser.add_argument("--seconds", type=float, default=12.0, help="run before the pictures")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if why := lacking():
        raise SystemExit(why)
    options.pages.mkdir(parents=True, exist_ok=True)
    _LONG.parent.mkdir(exist_ok=True)
    weave = (ROOT / "configs" / "manoeuvres" / "weave.toml").read_text()
    times_ten = re.sub(r"(seconds|cycles) = (\d+)", lambda found: f"{found[1]} = {10 * int(found[2])}", weave)
    _LONG.write_text(times_ten)
    failed = []
    with browser() as chromium:
        for name in options.only:
            try:
                documents(chromium, options) if name == _DOCUMENTS else every_tab(chromium, name, options)
            except (Exception, SystemExit) as error:  # the others are still worth looking at
                failed.append(name)
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
