"""An omni platform on its page, in a real browser: driven by a key, looked for in a picture, replayed to the bit.

TANDEM_SCREENSHOTS=FOLDER keeps the picture.
"""

import os
import signal
from collections.abc import Callable
from math import tan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim_service.contract.machine import Machine
from sim_service.contract.scene import poses
from sim_service.registry import load_machine
from sync.config.config import load
from sync.record import open_run
from tandem.records.replay import Options, replay_run
from tandem.view.data_source import LiveData
from tests.system.browser import act_until, browser, lacking, picture, visit, window
from tests.system.conftest import PATIENCE_S, ROOT, Program, address, until

# what lies over the scene
ALONE = "body * { visibility: hidden } canvas { visibility: visible !important }"


def pixels(machine: Machine, out: np.ndarray, canvas: dict[str, float]) -> dict[str, np.ndarray]:
    """Where the origin of each solid is in a picture of the page, by its first camera, of a platform not turned."""
    assert machine.shown.scene is not None
    camera, origin = machine.shown.scene.cameras[0], out[machine.shown.scene.solids[0].frame, 0]
    eye, target = origin + np.array(camera.at), origin + np.array(camera.to)
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    focal = 0.5 * canvas["height"] / tan(0.5 * camera.field_of_view)
    middle = np.array([canvas["x"] + 0.5 * canvas["width"], canvas["y"] + 0.5 * canvas["height"]])
    found = {}
    for solid in machine.shown.scene.solids:
        d = out[solid.frame, 0] - eye
        found[solid.name] = middle + focal / (d @ ahead) * np.array([d @ right, -d @ np.cross(right, ahead)])
    return found


def around(mask: np.ndarray, place: np.ndarray, reach: int) -> int:
    x, y = (round(float(c)) for c in place)
    return int(mask[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1].sum())


def seen_in(file: Path, places: dict[str, np.ndarray]) -> dict[str, int]:
    """Pixels of the colour of each cross and each roller, near where it should be."""
    from PIL import Image

    with Image.open(file) as image:
        colours = np.asarray(image.convert("RGB")).astype(int)
    red, green, blue = np.moveaxis(colours, -1, 0)
    marks = (red > 150) & (green < 0.6 * red) & (blue < 0.6 * red)
    dark = colours.max(axis=-1) < 90
    crosses = {solid: around(marks, place, 20) for solid, place in places.items() if solid.startswith("contact")}
    return crosses | {solid: around(dark, place, 3) for solid, place in places.items() if "roller" in solid}


@pytest.mark.drill  # a page drawn in software
@pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")
def test_a_platform_is_driven_from_its_page_and_seen_where_it_stopped(
    start: Callable[..., Program], name: str, tmp_path: Path
) -> None:
    pytest.importorskip("viser")
    file = ROOT / "configs" / "omni_page.toml"
    shot = Path(os.environ.get("TANDEM_SCREENSHOTS") or tmp_path) / "omni.png"
    shot.parent.mkdir(parents=True, exist_ok=True)
    settings = (f"name={name}", "view.enabled=true", "view.port=0", "view.rate_hz=5")
    options = [word for setting in settings for word in ("--set", setting)]
    run = start("tandem", "run", str(file), *options, "--json", "--runs", str(tmp_path / "runs"))
    machine, params = load_machine(ROOT / "configs" / "omni" / "mecanum.toml")
    live = LiveData(load(file, list(settings)), machine, params)
    assert machine.shown.scene is not None
    out = poses(machine.shown.scene.frames)

    def now() -> Any:
        """The newest step, with the bodies where they are after it."""
        frame = until(live.poll, "no step")
        machine.shown.frames(frame.state, params, out)
        return frame.step

    with browser() as opened:
        where = address(run)
        context = window(opened, PATIENCE_S, False)  # drawn in software, a page costs more than all else here
        page: Any = context.new_page()
        visit(page, where, f"tandem: {name}")
        act_until(lambda: page.keyboard.press("i"), lambda: now()["x"] > 0.1, lambda: f"it does not move: {now()['x']}")
        context.close()  # which lets go of it
        until(lambda: abs(now()["command_ahead"]) < 1e-3, lambda: f"it is not stopped: {now()['command_ahead']}")
        page = window(opened, PATIENCE_S, True).new_page()
        visit(page, where, f"tandem: {name}")
        scene = page.locator("canvas").first
        page.add_style_tag(content=ALONE)
        canvas = scene.bounding_box()
        seen: dict[str, int] = {}

        def drawn() -> bool:
            picture(page, str(shot))
            now()  # where it rolls to a stop, the next picture has it
            seen.update(seen_in(shot, pixels(machine, out, canvas)))
            crosses = [count for solid, count in seen.items() if solid.startswith("contact")]
            rollers = [count for solid, count in seen.items() if "roller" in solid]
            assert (len(crosses), len(rollers)) == (4, 32)
            # of the rollers some are behind the platform
            return min(crosses) >= 10 and sum(count > 0 for count in rollers) >= 16

        until(drawn, lambda: f"pixels of each that are seen: {seen}")
    live.close()
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.said
    result = run.json()
    assert result["view"]["rejected"] == 0 and "not shown" not in run.said
    record = open_run(tmp_path / "runs")
    assert record.whole and record.topics["/step"].blocks["x"][-1] > 0.1
    assert replay_run(tmp_path / "runs", Options()).figures["identical"] is True
