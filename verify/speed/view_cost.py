"""What the page costs the loop: how late steps start without it, and with it while ten pages watch six charts each.

One drive, recorded all the while, in phases that follow each other: without the view; with the view and its pages;
again, as many rounds as asked for. A page here is a client that speaks viser's protocol far enough to get everything a
browser gets: ten real ones that draw in software would load the machine with what a laptop beside it does. `--tabs`
adds real ones. Lateness is `started_ns - t_ns` of every step of the record.

Tails of single rounds of the same phase differ twentyfold where others use the host: their least, median and most are
shown beside.

Exit code 1 if the 99.9th percentile with pages is above 1.5 times that without.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np

from sync.clock import now_ns
from sync.files.token import new_token
from sync.record import open_run
from tandem.view.plots import MOST_CHARTS
from tests.system.browser import browser
from tests.tandem.view.pages import session
from verify import ROOT
from verify.measure import Row, at_least, at_most, figure, holds
from verify.others.beside import CONFIG, END_S, Span, driving, ended, slept

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
        sent = False
        async for data in socket:
            got["messages"] += 1
            got["bytes"] += len(data)
            if not sent and (list_of_charts := _charts(data)):
                update = {"type": "GuiUpdateMessage", "uuid": list_of_charts, "updates": {"value": str(MOST_CHARTS)}}
                await socket.send(msgpack.packb(update))
                got["charts"], sent = MOST_CHARTS, True


def _charts(data: bytes) -> str:
    """The id of the list by which a page chooses how many charts there are, if it comes in this message."""
    import msgpack
    import zstandard

    packed = int.from_bytes(data[8:16], "little")
    found = msgpack.unpackb(zstandard.ZstdDecompressor().decompress(data[16 : 16 + packed]), strict_map_key=False)
    for message in found["messages"]:
        if message["type"] == "GuiDropdownMessage" and message["props"]["label"] == "charts":
            return str(message["uuid"])
    return ""


def be_pages(port: int, pages: int) -> None:
    """A process: so many pages, until it is stopped; then what they got, as JSON."""
    import viser

    os.nice(10)
    got = {"open": 0, "messages": 0, "bytes": 0, "charts": 0}

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
        port = urlsplit(where).port
        self._pages = subprocess.Popen(
            [sys.executable, "-c", f"from verify.speed.view_cost import be_pages; be_pages({port}, {pages})"],
            cwd=ROOT,
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
        got: dict[str, Any] = json.loads(self._pages.communicate(timeout=END_S)[0] or "{}")
        self._left.close()
        self._view.terminate()
        output = self._view.communicate(timeout=END_S)[0]
        reports = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        frames = next((r["frames"] for r in reversed(reports) if "frames" in r), self.status.get("frames", 0))
        return {**got, "frames": frames}

    def kill(self) -> None:
        for process in (self._view, getattr(self, "_pages", None)):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def view_cost(
    *,
    seconds: Annotated[float, "with the view, and as long without"] = 60.0,
    rounds: Annotated[int, "that these are divided into"] = 5,
    pages: int = 10,
    tabs: Annotated[int, "of a real browser, besides"] = 0,
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from measure(seconds, rounds, pages, tabs, Path(folder))


def measure(seconds: float, rounds: int, pages: int, tabs: int, runs: Path) -> Iterator[Row]:
    name = f"view_cost_{os.getpid()}"
    spans: dict[str, list[Span]] = {"without": [], "with": []}
    got: dict[str, int] = {}
    view: View | None = None
    with driving(name, runs) as drive:
        try:
            for _ in range(rounds):
                time.sleep(_SETTLE_S)
                spans["without"].append(slept(seconds / rounds))
                view = View([f"name={name}", "view.port=0"], pages, tabs)
                view.watch(_SETTLE_S)
                begun = now_ns()
                view.watch(seconds / rounds)
                spans["with"].append((begun, now_ns()))
                got = {key: got.get(key, 0) + value for key, value in view.close().items()}
            result = ended(drive)
        finally:
            if view is not None:
                view.kill()
    steps = open_run(Path(result["record"]["file"])).topics["/step"].blocks
    late_us = (steps["started_ns"] - steps["t_ns"]) * 1e-3
    tails, of_all = {}, {}
    for what, parts in spans.items():
        inside = [(steps["t_ns"] >= begin) & (steps["t_ns"] < end) for begin, end in parts]
        rounds_us = [float(np.percentile(late_us[each], 99.9)) for each in inside]
        late = late_us[np.logical_or.reduce(inside)]
        tails[what], of_all[what] = float(np.median(rounds_us)), float(np.percentile(late, 99.9))
        yield figure(f"{what} the view: steps", len(late))
        for name, q in (("p50", 50), ("p99", 99), ("p99.9", 99.9), ("most", 100)):
            yield figure(f"{what} the view: started late, {name}", np.percentile(late, q), "us")
        yield figure(f"{what} the view: p99.9, least of a round", min(rounds_us), "us")
        yield figure(f"{what} the view: p99.9, most of a round", max(rounds_us), "us")
        yield figure(f"{what} the view: p99.9, median of the rounds", tails[what], "us")
    for name in ("frames", "messages"):
        yield figure(f"{name} to {pages} pages and {tabs} tabs", got[name])
    yield at_least("charts of a page", got["charts"] / rounds, MOST_CHARTS)
    yield figure("sent to pages", got["bytes"] / 1e6, "MB")
    yield figure("p99.9 with the view, of that without, medians of the rounds", tails["with"] / tails["without"])
    yield at_most("p99.9 with the view, of that without", of_all["with"] / of_all["without"], LIMIT)
    yield holds("the record is whole", result["record"]["whole"])
