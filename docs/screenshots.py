"""The pictures of the page in these documents, made from the real thing: a drive and its record, in a browser.

    python docs/screenshots.py [--out docs/images] [--seconds 12]

Writes live.jpg, instruments.jpg, tuning.jpg and replay.jpg, 1280 x 720, each at most 150 kB.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.system.browser import browser, click, lacking, open_tab, picture, press  # noqa: E402

_MOST_BYTES = 150_000
_LOADED_S = 4.0  # for everything to be drawn, in software


@contextmanager
def tandem(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command of ours and the address of its page; ended with Ctrl-C."""
    command = [sys.executable, "-m", "tandem", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"the page: (\S+)", line):
                yield process, found[1]
                break
        else:
            raise SystemExit(f"tandem {arguments[0]} serves no page")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def keep(page: Any, file: Path) -> None:
    """As good as fits."""
    for quality in (85, 70, 55, 40):
        picture(page, str(file), type="jpeg", quality=quality)
        if file.stat().st_size <= _MOST_BYTES:
            break
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


def open_page(chromium: Any, where: str) -> Any:
    page = chromium.new_page(viewport={"width": 1280, "height": 720})
    page.goto(where, timeout=120_000)
    page.get_by_text(re.compile("^tandem: ")).first.wait_for(timeout=120_000)
    time.sleep(_LOADED_S)
    # viser says that there is no graphics card here; those who read have one
    for button in page.locator(".mantine-Notification-closeButton").all():
        click(button)
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--seconds", type=float, default=12.0, help="driven before the pictures")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if why := lacking():
        raise SystemExit(why)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as runs, browser() as chromium:
        settings = ["name=screenshots", f"view.port={options.port}", 'source.manoeuvre="manoeuvres/weave.toml"']
        words = [word for setting in settings for word in ("--set", setting)]
        with tandem("drive", "--seconds", "0", "--json", "--runs", runs, *words) as (drive, where):
            page = open_page(chromium, where)
            time.sleep(options.seconds)
            keep(page, options.out / "live.jpg")
            for tab, name in (("plots", "instruments"), ("tune", "tuning")):
                open_tab(page, tab)
                time.sleep(1.0)
                keep(page, options.out / f"{name}.jpg")
            page.close()
            drive.send_signal(signal.SIGINT)
            assert drive.stdout is not None
            record = json.loads(drive.stdout.read())["record"]["file"]
        against = ("--against", "ideal", "--delay-ms", "50", "--port", str(options.port))
        with tandem("view", record, *against) as (_, where):
            page = open_page(chromium, where)
            press(page.get_by_role("slider").first, "End")
            time.sleep(_LOADED_S)
            keep(page, options.out / "replay.jpg")
            page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
