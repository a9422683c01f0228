"""A twin on its page, in a real browser: the car, its estimate, and the path that the look ahead draws before it.

TANDEM_SCREENSHOTS=FOLDER keeps the pictures.
"""

import os
import re
import signal
from collections.abc import Callable
from math import tan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.look_ahead.record import HELD, POINTS, WARNING
from sim_service.registry import load_machine
from sync.record import open_run
from tandem.records.against_truth import paired
from tests.system.browser import act_until, browser, click, lacking, picture, type_into, visit, window, words
from tests.system.conftest import PATIENCE_S, ROOT, Program, address, ring_of, until, wait_for_steps
from tests.system.test_twin import AHEAD, begin

ALONE = "body * { visibility: hidden } canvas { visibility: visible !important }"  # what lies over the scene


def calm_of(predictions: np.ndarray) -> np.ndarray:
    """Held futures that warn of nothing."""
    found: np.ndarray = predictions[(predictions["kind"] == HELD) & (predictions["status"] & WARNING == 0)]
    return found


def held_of(run: Path) -> tuple[float, Any, Any]:
    """Of the last held prediction that warns of nothing: seconds into the run, itself, the step that it begins with."""
    record = open_run(run)
    steps, predictions = record.topics["/step"].blocks, record.topics["/look_ahead"].blocks
    prediction = calm_of(predictions)[-1]
    after = int(np.searchsorted(steps["t_ns"], prediction["t_ns"]))
    return 1e-9 * float(steps["t_ns"][after] - steps["t_ns"][0]), prediction, steps[after]


def distances(run: Path) -> np.ndarray:
    """Of every step from the truth at the instant of its block."""
    steps, true = (open_run(each).topics["/step"].blocks for each in (run, run / "truth"))
    at, _ = paired(steps, true)
    return np.sqrt(sum((steps[of] - true[of][at]) ** 2 for of in "xyz"))


def places_of(prediction: Any, step: Any, canvas: dict[str, float]) -> np.ndarray:
    """Where the path's places are in a picture by the chase camera, which looks along the heading."""
    machine, _ = load_machine(ROOT / "configs" / "observers" / "buggy_live.toml")
    assert machine.shown.scene is not None
    camera = machine.shown.scene.cameras[0]
    c, s = np.cos(step["yaw"]), np.sin(step["yaw"])
    origin, turned = np.array([step["x"], step["y"], step["z"]]), np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    eye, target = (origin + turned @ np.array(place) for place in (camera.at, camera.to))
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    focal = 0.5 * canvas["height"] / tan(0.5 * camera.field_of_view)
    middle = np.array([canvas["x"] + 0.5 * canvas["width"], canvas["y"] + 0.5 * canvas["height"]])
    found = []
    for n in range(1, POINTS + 1):
        d = np.array([prediction[f"x_{n}"], prediction[f"y_{n}"], 0.05]) - eye
        found.append(middle + focal / (d @ ahead) * np.array([d @ right, -d @ np.cross(right, ahead)]))
    return np.array(found)


def greens(file: Path) -> np.ndarray:
    """Where a picture has the colour of a path that warns of nothing."""
    from PIL import Image

    with Image.open(file) as image:
        red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")).astype(int), -1, 0)
    return np.asarray((green > 80) & (green > 1.5 * red) & (green > 1.3 * blue))


@pytest.mark.drill  # two simulators, and a page drawn in software
@pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")
def test_the_page_of_a_twin_has_the_car_its_estimate_and_the_path_before_it(
    start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    pytest.importorskip("viser")
    shots = Path(os.environ.get("TANDEM_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    run = begin(start, name, tmp_path, "--seconds", "0", *AHEAD)
    predictions, steps = ring_of(name, "look_ahead"), ring_of(name, "sim")
    wait_for_steps(steps, 400)
    until(lambda: len(calm_of(predictions.since(0)[0])), lambda: run.said)  # while it pulls away there are warnings
    predictions.close()
    steps.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    folder = open_run(tmp_path / "runs").path.parent
    seconds, prediction, step = held_of(folder)

    view = start("tandem", "view", str(folder), str(folder / "truth"), "--port", "0", "--set", "view.rate_hz=5")
    where = address(view)
    with browser() as opened:
        context = window(opened, PATIENCE_S, False)  # drawn in software, a page costs more than all else here
        page: Any = context.new_page()
        visit(page, where, re.compile("^tandem: "))

        def shown() -> int:
            found = re.search(r"s of [\d.]+ s, step (\d+) ", words(page))
            return int(found[1]) if found else -1

        def at(step: int) -> Callable[[], bool]:
            return lambda: abs(shown() - step) <= 1

        # the estimate's figures, and how far it is from the car at the instant that its readings are of
        first = page.get_by_role("button", name="first", exact=True)
        act_until(lambda: click(first), at(0), lambda: f"not at the first step: {words(page)}")
        assert until(lambda: re.search(r"[\d.]+\s*km/h", words(page)), lambda: words(page))
        # then where a prediction is
        field = page.get_by_text("time [s]", exact=True).first.locator("xpath=ancestor::*[.//input][1]")
        act_until(
            lambda: type_into(field.locator("input").last, f"{seconds:.3f}"), at(int(step["step"])),
            lambda: f"not at step {step['step']}: {words(page)}",
        )  # fmt: skip
        apart, said = distances(folder), rf"step (\d+) [^m]*distance to \S*{name}_truth: ([\d.]+) m"
        found = until(lambda: re.search(said, words(page)), lambda: words(page))
        assert abs(float(found[2]) - apart[int(found[1])]) < 1e-3, found[0]
        context.close()
        page = window(opened, PATIENCE_S, True).new_page()
        visit(page, where, re.compile("^tandem: "))
        page.add_style_tag(content=ALONE)
        places = places_of(prediction, step, page.locator("canvas").first.bounding_box())
        seen: list[int] = []

        def drawn() -> bool:
            picture(page, str(shots / "twin_ahead.png"))
            there = greens(shots / "twin_ahead.png")
            near = [there[max(int(y) - 5, 0) : int(y) + 6, max(int(x) - 5, 0) : int(x) + 6] for x, y in places]
            seen[:] = [int(one.sum()) for one in near]
            # the car hides what is next to it, and nothing else is green
            return sum(count > 0 for count in seen) >= POINTS // 2 and there.sum() < 2 * sum(seen) + 500

        until(drawn, lambda: f"green pixels near each place of the path: {seen}")
    view.signal(signal.SIGINT)
    assert view.end() == 0, view.said
    assert "Traceback" not in view.said and "not shown" not in view.said
