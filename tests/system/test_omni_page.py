"""What a page draws of an omni platform, in a real browser: rollers and points of contact are looked for in a picture.

TANDEM_SCREENSHOTS=FOLDER keeps it.
"""

import os
from math import tan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim_service.machines import load_machine
from sim_service.machines.contract import Machine
from sim_service.machines.scene import poses
from sim_service.step_record import output_layout
from tests.system.browser import browser, lacking, picture, window
from tests.system.conftest import PATIENCE_S, ROOT, until

# what lies over the scene
ALONE = "body * { visibility: hidden } canvas { visibility: visible !important }"


def pixels(machine: Machine, out: np.ndarray, canvas: dict[str, float]) -> dict[str, np.ndarray]:
    """Where the origin of each solid is in a picture of the page, by its first camera."""
    assert machine.scene is not None
    camera, origin = machine.scene.cameras[0], out[machine.scene.solids[0].frame, 0]
    eye, target = origin + np.array(camera.at), origin + np.array(camera.to)
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    focal = 0.5 * canvas["height"] / tan(0.5 * camera.field_of_view)
    middle = np.array([canvas["x"] + 0.5 * canvas["width"], canvas["y"] + 0.5 * canvas["height"]])
    found = {}
    for solid in machine.scene.solids:
        d = out[solid.frame, 0] - eye
        found[solid.name] = middle + focal / (d @ ahead) * np.array([d @ right, -d @ np.cross(right, ahead)])
    return found


def around(mask: np.ndarray, place: np.ndarray, reach: int) -> int:
    x, y = (round(float(c)) for c in place)
    return int(mask[max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1].sum())


@pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is one")
def test_rollers_and_points_of_contact_are_seen_on_the_page(tmp_path: Path) -> None:
    viser = pytest.importorskip("viser")
    from PIL import Image

    from tandem.view.data_source import Frame
    from tandem.view.scene_view import SceneView

    machine, params = load_machine(ROOT / "configs" / "omni" / "mecanum.toml")
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    frame = Frame(0, np.zeros(1, output_layout(machine).dtype)[0], state)
    assert machine.scene is not None
    out = poses(machine.scene.frames)
    machine.frames(state, params, out)
    file = Path(os.environ.get("TANDEM_SCREENSHOTS") or tmp_path) / "omni.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        stage = SceneView(server, SimpleNamespace(model=machine, params=params, files={}))
        with browser() as opened:
            page: Any = window(opened, PATIENCE_S, True).new_page()
            page.goto(f"http://127.0.0.1:{server.get_port()}")
            page.add_style_tag(content=ALONE)
            canvas = page.locator("canvas").first.bounding_box()
            places = pixels(machine, out, canvas)
            crosses = {solid: place for solid, place in places.items() if solid.startswith("contact")}
            rollers = {solid: place for solid, place in places.items() if "roller" in solid}
            assert (len(crosses), len(rollers)) == (4, 32)
            seen: dict[str, int] = {}

            def drawn() -> bool:
                stage.show(frame)
                picture(page, str(file))
                with Image.open(file) as image:
                    colours = np.asarray(image.convert("RGB")).astype(int)
                red, green, blue = np.moveaxis(colours, -1, 0)
                marks = (red > 150) & (green < 0.6 * red) & (blue < 0.6 * red)
                dark = colours.max(axis=-1) < 90
                for solid, place in crosses.items():
                    seen[solid] = around(marks, place, 20)
                for solid, place in rollers.items():
                    seen[solid] = around(dark, place, 3)
                # of the rollers some are behind the platform
                return all(seen[solid] >= 10 for solid in crosses) and sum(seen[solid] > 0 for solid in rollers) >= 16

            until(drawn, lambda: f"pixels of each that are seen: {seen}")
    finally:
        server.stop()
