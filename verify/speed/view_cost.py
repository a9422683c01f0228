"""What the page costs the loop: how late steps start without it, and with it while ten pages watch.

One drive, recorded all the while, in phases that follow each other: without the view; with the view and its pages;
again, as many rounds as asked for. A page here is a client that speaks viser's protocol far enough to get everything a
browser gets: ten real ones that draw in software would load the machine with what a laptop beside it does. `--tabs`
adds real ones. Lateness is `started_ns - t_ns` of every step of the record.

    python -m verify.speed.view_cost --seconds 60 --pages 10

Exit code 1 if the 99.9th percentile with pages is above 1.5 times that without.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from tests.sim_service.pages import session

from sync.clock import now_ns
from sync.config.config import load
from sync.errors import RingError
from sync.files.token import new_token
from sync.record import open_run
from sync.ring.ring import RingReader
from tests.system.browser import browser
from verify import ROOT

CONFIG = ROOT / "configs" / "drive.toml"
LIMIT = 1.5
_SETTLE_S = 3.0  # after something was started or ended: its imports are not what is measured
_PATIENCE_S = 300.0


# ---- pages -----------------------------------------------------------------------------------------------------------


async def _page(port: int, path: str, cookie: str, version: str, got: dict[str, int]) -> None:
    import msgpack
    import websockets

    camera = {
        "type": "ViewerCameraMessage", "wxyz": [1.0, 0.0, 0.0, 0.0], "position": [5.0, 5.0, 3.0], "fov": 1.0,
        "near": 0.01, "far": 1000.0, "image_height": 720, "image_width": 1280, "look_at": [0.0, 0.0, 0.0],
        "up_direction": [0.0, 0.0, 1.0],
    }  # fmt: skip
    async with websockets.connect(
        f"ws://127.0.0.1:{port}{path}", origin=f"http://127.0.0.1:{port}", subprotocols=[f"viser-v{version}"],
        max_size=None, compression=None, proxy=None, additional_headers={"Cookie": cookie},
    ) as socket:  # fmt: skip
        await socket.send(msgpack.packb(camera))  # a client that has sent one is a page
        got["open"] += 1
        async for data in socket:
            got["messages"] += 1
            got["bytes"] += len(data)


def be_pages(port: int, pages: int) -> int:
    """A process: so many pages, until it is stopped; then what they got, as JSON."""
    import viser

    os.nice(10)
    got = {"open": 0, "messages": 0, "bytes": 0}

    async def all_of_them() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        path, cookie = session(port, os.environ["VIEW_COST_TOKEN"])
        opened = [asyncio.create_task(_page(port, path, cookie, viser.__version__, got)) for _ in range(pages)]
        await stop.wait()
        for page in opened:
            page.cancel()
        await asyncio.gather(*opened, return_exceptions=True)

    asyncio.run(all_of_them())
    print(json.dumps(got))
    return 0


class View:
    """The view as the supervisor starts it, and its pages."""

    def __init__(self, settings: list[str], pages: int, tabs: int):
        options = [word for setting in settings for word in ("--set", setting)]
        self._left = contextlib.ExitStack()
        self._view = subprocess.Popen(
            [sys.executable, "-m", "tandem.view", str(CONFIG), "--supervised", *options],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.status: dict[str, Any] = {}
        token = new_token()
        assert self._view.stdin is not None
        self._view.stdin.write(json.dumps({"token": token}) + "\n")
        self._view.stdin.flush()
        where = self._address()
        self._pages = subprocess.Popen(
            [sys.executable, "-m", "verify.speed.view_cost", "--be-pages", str(urlsplit(where).port),
             "--pages", str(pages)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "VIEW_COST_TOKEN": token},
        )  # fmt: skip
        if tabs:
            opened = self._left.enter_context(browser())
            for _ in range(tabs):
                opened.new_page(viewport={"width": 1280, "height": 720}).goto(where)
        end = time.monotonic() + _PATIENCE_S
        while self.status.get("pages", 0) < pages + tabs:
            self._read()
            if time.monotonic() > end:
                raise SystemExit(f"only {self.status.get('pages', 0)} of {pages + tabs} pages were opened")

    def _read(self) -> dict[str, Any]:
        assert self._view.stdout is not None
        line = self._view.stdout.readline()
        if not line:
            raise SystemExit("the view ended")
        with contextlib.suppress(json.JSONDecodeError):
            message: dict[str, Any] = json.loads(line)
            if message.get("kind") in ("status", "report"):
                self.status = message
            return message
        return {}

    def _address(self) -> str:
        while True:
            text = self._read().get("text", "")
            if text.startswith("the page: "):
                return str(text.removeprefix("the page: "))

    def watch(self, seconds: float) -> None:
        """Its output must be read, or it would wait for that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read()

    def close(self) -> dict[str, Any]:
        self._pages.terminate()
        got: dict[str, Any] = json.loads(self._pages.communicate(timeout=20)[0] or "{}")
        self._left.close()
        self._view.terminate()
        output = self._view.communicate(timeout=20)[0]
        reports = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        frames = next((r["frames"] for r in reversed(reports) if "frames" in r), self.status.get("frames", 0))
        return {**got, "frames": frames}

    def kill(self) -> None:
        for process in (self._view, getattr(self, "_pages", None)):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


# ---- the drive -------------------------------------------------------------------------------------------------------


def _wait_for_steps(name: str, drive: subprocess.Popen[str]) -> None:
    ring = load(CONFIG, [f"name={name}"]).ring("sim")
    while True:
        if drive.poll() is not None:
            raise SystemExit(f"the drive ended with exit code {drive.returncode}")
        with contextlib.suppress(RingError):
            reader = RingReader(ring)
            head = reader.head
            reader.close()
            if head > 0:
                return
        time.sleep(0.1)


def measure(options: argparse.Namespace, runs: Path) -> dict[str, Any]:
    name = f"view_cost_{os.getpid()}"
    settings = [f"name={name}", f"view.port={options.port}"]
    words = [word for setting in [*settings, "view.enabled=false"] for word in ("--set", setting)]
    drive = subprocess.Popen(
        [sys.executable, "-m", "tandem", "drive", str(CONFIG), "--seconds", "0", "--json", "--runs", str(runs), *words],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    spans: dict[str, list[tuple[int, int]]] = {"without": [], "with": []}
    got: dict[str, int] = {}
    view: View | None = None
    try:
        _wait_for_steps(name, drive)
        for _ in range(options.rounds):
            time.sleep(_SETTLE_S)
            begun = now_ns()
            time.sleep(options.seconds / options.rounds)
            spans["without"].append((begun, now_ns()))
            view = View(settings, options.pages, options.tabs)
            view.watch(_SETTLE_S)
            begun = now_ns()
            view.watch(options.seconds / options.rounds)
            spans["with"].append((begun, now_ns()))
            got = {key: got.get(key, 0) + value for key, value in view.close().items()}
        drive.send_signal(signal.SIGINT)
        result = json.loads(drive.communicate(timeout=60)[0])
    finally:
        if view is not None:
            view.kill()
        if drive.poll() is None:
            drive.send_signal(signal.SIGINT)
            drive.wait(60)
    steps = open_run(Path(result["record"]["file"])).topics["/step"].blocks
    late_us = (steps["started_ns"] - steps["t_ns"]) * 1e-3
    found: dict[str, Any] = {"pages": options.pages, "tabs": options.tabs, "got": got}
    for what, parts in spans.items():
        inside = np.zeros(len(steps), bool)
        for begin, end in parts:
            inside |= (steps["t_ns"] >= begin) & (steps["t_ns"] < end)
        late = late_us[inside]
        p50, p99, p999 = np.percentile(late, [50, 99, 99.9])
        found[what] = {
            "steps": int(inside.sum()), "p50_us": round(float(p50), 1), "p99_us": round(float(p99), 1),
            "p999_us": round(float(p999), 1), "max_us": round(float(late.max()), 1),
        }  # fmt: skip
    found["ratio"] = round(found["with"]["p999_us"] / found["without"]["p999_us"], 3)
    found["record_whole"] = result["record"]["whole"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="with the view, and as long without")
    parser.add_argument("--rounds", type=int, default=2, help="that these are divided into")
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--tabs", type=int, default=0, help="of a real browser, besides")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--be-pages", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be_pages:
        return be_pages(options.be_pages, options.pages)
    with tempfile.TemporaryDirectory() as runs:
        found = measure(options, Path(runs))
    for what in ("without", "with"):
        f = found[what]
        print(
            f"{what:>8} the view: {f['steps']} steps started late by {f['p50_us']} us (median), {f['p99_us']} us (p99),"
            f" {f['p999_us']} us (p99.9), at most {f['max_us']} us"
        )
    got = found["got"]
    print(
        f"{options.pages} pages and {options.tabs} tabs: {got['frames']} frames shown, {got['messages']} messages,"
        f" {got['bytes'] / 1e6:.1f} MB"
    )
    print(f"ratio of p99.9: {found['ratio']} (at most {LIMIT})")
    print(json.dumps(found))
    return int(found["ratio"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
