"""The page in a real browser, over a real drive and over its record; and the drive without its page.

TANDEM_SCREENSHOTS=FOLDER keeps pictures of what the browser saw.
"""

import http.client
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from sim_service.command_record import PARAMETER, SHAPE
from sim_service.commands import CommandClient
from sync.config.config import load
from sync.files.token import VARIABLE, new_token
from sync.record import open_run
from tests.stranger import as_stranger, command_lines, environment_of
from tests.system.browser import (
    act_until,
    browser,
    choose,
    click,
    drawings,
    lacking,
    open_tab,
    picture,
    press,
    type_into,
    visit,
    window,
    words,
)
from tests.system.conftest import (
    DRIVE,
    PATIENCE_S,
    ROOT,
    Program,
    Recorded,
    address,
    pid_of,
    processes_of,
    ring_of,
    until,
    wait_for_steps,
)

Start = Callable[..., Program]
PICTURES = bool(os.environ.get("TANDEM_SCREENSHOTS"))
SLOWLY = ("--set", "view.rate_hz=5")  # what draws in software is not to be kept busy

needs_browser = pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def chromium(started: Any) -> Iterator[Any]:
    """A window of its own for the test, gone with it: what is open is drawn, and costs."""
    context = window(started, PATIENCE_S, PICTURES)
    yield context
    context.close()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("TANDEM_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def opened(chromium: Any, where: str) -> Any:
    page = chromium.new_page()
    page.sockets = []

    def note(socket: Any) -> None:
        page.sockets.append(socket)

    page.on("websocket", note)
    visit(page, where, re.compile("^tandem: "))
    return page


def speed(page: Any) -> float | None:
    """As the page shows it."""
    found = re.search(r"(-?[\d.]+)\s*km/h", words(page))
    return float(found[1]) if found else None


def _view_pid(drive: Program) -> int:
    (pid,) = processes_of(drive, "view")
    return pid


def status(where: str, **headers: str) -> int:
    """What a plain client gets."""
    parts = urlsplit(where)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", f"{parts.path or '/'}?{parts.query}".rstrip("?"), headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def paged(drive: Start, *arguments: str) -> Program:
    """A drive with its page at any free port."""
    return drive("--json", "--set", "view.enabled=true", "--set", "view.port=0", *SLOWLY, *arguments)


@needs_browser
def test_a_drive_on_its_page(drive: Start, name: str, chromium: Any, pictures: Path) -> None:
    # a DAQ that stands still is not to be replaced here: its age is to be seen
    run = paged(drive, "--seconds", "0", "--set", "supervision.restart=false")
    where = address(run)
    token = where.partition("?token=")[2]
    assert len(token) >= 32
    assert status(where.partition("?")[0]) == 403  # without its token
    assert status(where, Host="evil.example") == 403
    _the_token_is_in_no_list_of_processes(run, token)
    page = opened(chromium, where)
    until(
        lambda: words(page) and any(not socket.is_closed() for socket in page.sockets),
        lambda: f"none of {len(page.sockets)} sockets is open",
    )
    _the_car_moves(page)
    changed = _a_parameter_is_changed_by_hand(page, name)
    _stale_data_are_said(page, name)
    assert PICTURES or until(lambda: drawings(page), "the scene is not drawn")
    if PICTURES:
        picture(page, str(pictures / "live.png"))
    page.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    result = run.json()
    assert result["view"]["frames"] > 0, "a page was open, and got frames"  # how many is the load's affair
    assert result["view"]["refused"] == 2
    assert result["view"]["rejected"] == 0, "the page sends nothing that is not allowed"
    assert token not in run.printed and "?" not in result["view"]["address"]
    record = open_run(Path(result["record"]["file"]))
    assert record.whole
    assert any("the page: " in text for _, text in record.notices)
    for file in Path(result["record"]["file"]).parent.rglob("*"):  # the record, its attachments and notes, the report
        assert file.is_dir() or token.encode() not in file.read_bytes(), file
    commands = record.topics["/command"].blocks
    names = list(record.json("parameters.json")["parameters"])
    assert changed in [names[int(c["index"])] for c in commands if c["kind"] == PARAMETER]
    steps = record.topics["/step"].blocks
    obeyed = np.flatnonzero(np.diff(steps["commands"]) > 0)
    assert len(obeyed), "obeyed before a step"
    assert (commands["kind"] == SHAPE).any()
    assert np.abs(np.diff(steps["camber_fl"])[obeyed]).max() == pytest.approx(0.01, abs=2e-3), "another shape at once"
    assert changed == "front_spring_rate", "the first that the page shows, of the buggy"
    before, after = spring_rate(steps[: obeyed[0]]), spring_rate(steps[obeyed[-1] + 200 :])
    assert 1.05 < after / before < 1.15, "and the model's output is another"


def _the_token_is_in_no_list_of_processes(run: Program, token: str) -> None:
    assert token not in command_lines()
    pids = [_view_pid(run), run.popen.pid]
    assert all(token not in environment_of(pid) for pid in pids)  # it goes through a pipe
    if os.getuid() == 0:
        assert as_stranger(lambda: [environment_of(pid) for pid in pids]) == ["", ""]


def spring_rate(steps: np.ndarray) -> float:
    """From the model's outputs: what dampers do is nothing in the mean."""
    pressed = 0.419 - steps["spring_length_fl"]
    return float(steps["spring_force_fl"].mean() / pressed.mean())


def _the_car_moves(page: Any) -> None:
    seen = {until(lambda: speed(page), "no speed above 0")}
    until(lambda: seen.add(speed(page)) or len(seen) > 2, lambda: f"the speed stays at {seen}")


def _a_parameter_is_changed_by_hand(page: Any, name: str) -> str:
    """A number typed into a field of the page is a parameter of the model; its name."""
    client, steps = CommandClient(load(DRIVE, [f"name={name}"]), PATIENCE_S), ring_of(name, "sim")
    try:
        known = client.ask()["parameters"]
        label, parameter = act_until(
            lambda: choose(page, "tune"), lambda: _first_parameter(page, known),
            lambda: f"no parameter on the page: {words(page)}",
        )  # fmt: skip
        p = known[parameter]
        wanted = 1.1 * p["value"] if 0 < 1.1 * p["value"] < p["high"] else 0.5 * (p["low"] + p["high"])
        _type_parameter(page, client, label, parameter, wanted)
        # and one that shapes the car
        _type_parameter(page, client, page.get_by_text("front camber [rad]", exact=True).first, "front_camber", -0.01)
        wait_for_steps(steps, steps.head + 400)  # as it is now
        open_tab(page, "controls")
        return str(parameter)
    finally:
        client.close()
        steps.close()


def _type_parameter(page: Any, client: CommandClient, label: Any, parameter: str, wanted: float) -> None:
    field = label.locator("xpath=ancestor::*[.//input][1]").locator("input").last

    def write() -> None:
        choose(page, "tune")  # a page that was built again is at its first tab
        type_into(field, f"{wanted:.8g}")

    def value() -> float:
        return float(client.ask()["parameters"][parameter]["value"])

    # a field that is being typed into may pass other values on its way
    act_until(
        write, lambda: abs(value() - wanted) <= 0.02 * abs(wanted),
        lambda: f"{parameter} is {value()} and does not become {wanted}: {words(page)}",
    )  # fmt: skip


def _first_parameter(page: Any, known: dict[str, Any]) -> Any:
    """Its label on the page, which is its name in words and its unit; and its name."""
    for line in words(page).splitlines():
        parameter = line.partition("[")[0].strip().replace(" ", "_")
        p = known.get(parameter)
        if p is not None and p["live"] and p["value"] > 0:
            return page.get_by_text(line.strip(), exact=True).first, parameter
    return None


def _stale_data_are_said(page: Any, name: str) -> None:
    stale = page.get_by_text(re.compile("^stale input"))
    daq = pid_of(name, "daq")
    os.kill(daq, signal.SIGSTOP)
    try:
        stale.first.wait_for(timeout=1e3 * PATIENCE_S)
    finally:
        os.kill(daq, signal.SIGCONT)
    stale.first.wait_for(state="hidden", timeout=1e3 * PATIENCE_S)


@pytest.mark.drill
def test_a_drive_goes_on_without_its_page(drive: Start, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token = new_token()
    monkeypatch.setenv(VARIABLE, token)
    run = paged(drive, "--seconds", "0")
    where = address(run)
    assert where.endswith(f"?token={token}")
    started = [pid_of(name, "daq"), pid_of(name, "sim"), _view_pid(run)]
    assert not any(token in environment_of(pid) for pid in started), "it is handed to the view through a pipe"
    # a view that never was at work is not replaced: it is once it has answered many times, however slowly
    for _ in range(30):
        assert status(where) == 200
        steps = ring_of(name, "sim")
        wait_for_steps(steps, steps.head + 20)
        steps.close()
    os.kill(_view_pid(run), signal.SIGKILL)
    exit_message = "the view was killed by SIGKILL; another takes its place"
    run.wait_for(exit_message)
    run.wait_for("the view is back")
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    result = run.json()
    assert result["view"]["address"] and result["balance"]["closes"]
    record = open_run(Path(result["record"]["file"]))
    assert record.whole and exit_message in [text for _, text in record.notices]
    steps = record.topics["/step"].blocks
    # without a gap; one that a machine with other work stops for seconds is replaced, says so, and counts from 0
    notices = [text for _, text in record.notices]
    replaced = sum(text.startswith("the simulator ") and "another takes its place" in text for text in notices)
    assert len(steps) and np.count_nonzero(np.diff(steps["step"].astype(np.int64)) != 1) <= replaced, notices


@pytest.mark.drill
@needs_browser
def test_a_record_on_a_page(recorded: Callable[[str], Recorded], start: Start, chromium: Any, pictures: Path) -> None:
    record = recorded("ipc").result["record"]["file"]
    view = start("tandem", "view", record, "--against", "ideal", "--delay-ms", "50", "--port", "0", *SLOWLY)
    page = opened(chromium, address(view))

    def shown() -> tuple[float, int]:
        """Seconds and step, as soon as the page has words for them: while it is drawn anew it has none."""
        found = until(lambda: re.search(r"([\d.]+) s of [\d.]+ s, step (\d+) ", words(page)), "no time is shown")
        return float(found[1]), int(found[2])

    def button(label: str) -> Any:
        return page.get_by_role("button", name=label, exact=True)

    def to_the_first() -> None:  # it stands then
        act_until(lambda: click(button("first")), lambda: shown()[1] == 0, lambda: f"not at the first: {words(page)}")

    def from_the_first(label: str) -> None:  # once from there, however often it is tried
        to_the_first()
        click(button(label))

    act_until(lambda: from_the_first("+1"), lambda: shown()[1] == 1, lambda: f"not one step further: {words(page)}")
    act_until(lambda: from_the_first("play"), lambda: shown()[1] > 20, lambda: f"time stands: {words(page)}")
    to_the_first()
    slider = page.get_by_role("slider").first
    act_until(
        lambda: press(slider, "End"), lambda: shown()[0] > 2.5, lambda: f"the slider moves nothing: {words(page)}"
    )
    away = until(lambda: re.search(r"distance to 50 ms of delay: ([\d.]+) m", words(page)), "no distance is shown")
    assert float(away[1]) > 0.0
    assert PICTURES or until(lambda: drawings(page), "the scene is not drawn")
    if PICTURES:
        picture(page, str(pictures / "replay.png"))
    page.close()
    view.signal(signal.SIGINT)
    assert view.end() == 0, view.said
    assert "Traceback" not in view.said and "not shown" not in view.said


@needs_browser
@pytest.mark.drill
def test_a_machine_that_is_no_car_is_moved_from_its_page(
    start: Start, name: str, chromium: Any, tmp_path: Path
) -> None:
    """A slider of the page moves the handle; a page that is closed lets go of it."""
    run = start(
        "tandem", "run", str(ROOT / "configs" / "mass_spring.toml"), "--seconds", "0", "--json",
        "--set", f"name={name}", "--set", "source={kind='page', controls={handle={least=-0.05, most=0.05}}}",
        "--set", "view.enabled=true", "--set", "view.port=0", *SLOWLY, "--runs", str(tmp_path / "runs"),
    )  # fmt: skip
    page = opened(chromium, address(run))
    steps = ring_of(name, "sim")
    until(lambda: "handle [mm]" in words(page), "no slider for the row")
    slider = page.get_by_role("slider").first
    act_until(
        lambda: press(slider, "End"),
        lambda: steps.newest()["handle"] > 0.049,
        lambda: f"the handle is at {steps.newest()['handle']}: {words(page)}",
    )
    page.close()
    until(lambda: abs(steps.newest()["handle"]) < 1e-3, lambda: f"it is not let go: {steps.newest()['handle']}")
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    assert run.json()["view"]["rejected"] == 0
    assert open_run(tmp_path / "runs").topics["/step"].blocks["position"].max() > 0.04


@pytest.mark.drill
def test_a_view_without_a_run_says_that_there_is_none_yet(start: Start, name: str) -> None:
    view = start("tandem", "view", "--set", f"name={name}", "--port", "0", *SLOWLY)
    view.wait_for(f"no run named {name!r} is going on here yet: the page shows it as soon as it begins")
    address(view)
    view.signal(signal.SIGINT)
    assert view.end() == 0, view.said


@pytest.mark.drill
@needs_browser
def test_the_page_of_a_drive_from_a_second_terminal(drive: Start, start: Start, name: str, chromium: Any) -> None:
    view = start("tandem", "view", "--set", f"name={name}", "--port", "0", *SLOWLY)  # before there is a drive
    page = opened(chromium, address(view))
    assert speed(page) is None and "no run of this name yet" in words(page)
    view.wait_for(f"no run named {name!r} is going on here yet")
    run = drive("--seconds", "0", "--json")
    until(lambda: speed(page) is not None, "the drive is not seen")
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    page.close()
    view.signal(signal.SIGINT)
    assert view.end() == 0, view.said
    assert "not shown" not in view.said
