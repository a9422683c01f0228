"""What models look like, against what is known of them otherwise; and the stage, without a browser."""

import contextlib
import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim_service.contract.scene import Bar, Point, Scene, poses, usual_cameras
from sim_service.registry import MACHINES, gather, make_machine
from sim_service.step_record import output_layout
from sync.config.config import load
from tandem.machines import tilting
from tandem.machines.piano import multibody
from tandem.machines.piano.multibody import action, drawing
from tandem.multibody.description.mechanism_file import read_mechanism
from tandem.multibody.natural.api import start
from tandem.multibody.natural.api import step as natural_step
from tandem.multibody.natural.scene import scene_of
from tandem.multibody.rotations import rotated
from tandem.view import geometry
from tandem.view.data_source import Frame
from tandem.view.ground import Ground, way_of
from tandem.view.motion import Motion
from tests.tandem.machines.car.buggy.conftest import Car
from tests.tandem.view.seen import Seen

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
WHEELS = ("fl", "fr", "rl", "rr")
MIRROR = np.array([1.0, -1.0, 1.0])


@pytest.fixture(scope="module")
def resting() -> Car:
    return Car()


def _scene(car: Car) -> Scene:
    assert car.model.shown.scene is not None
    return car.model.shown.scene


def _poses(car: Car) -> np.ndarray:
    out = poses(_scene(car).frames)
    car.model.shown.frames(car.state, car.params, out)
    return out


def _length(bar: Bar, out: np.ndarray) -> float:
    return float(np.linalg.norm(bar.end.where(out) - bar.start.where(out)))


# ---- the buggy -------------------------------------------------------------------------------------------------------


def test_wheels_stand_where_the_vehicle_file_puts_them(resting: Car) -> None:
    at = {w.name: w.centre.where(_poses(resting)) for w in _scene(resting).wheels}
    assert tuple(at) == WHEELS
    # hardpoints of configs/vehicles/buggy.toml; at rest the springs are where they were drawn, to millimetres
    for axle, half_track in (("f", 0.66), ("r", 0.67)):
        assert at[f"{axle}l"][1] == pytest.approx(half_track, abs=1e-3)
        assert at[f"{axle}l"][1] - at[f"{axle}r"][1] == pytest.approx(2.0 * half_track, abs=2e-3)
    assert at["fl"][0] - at["rl"][0] == pytest.approx(2.25, abs=1e-3)


def test_both_sides_are_mirrored_at_rest(resting: Car) -> None:
    scene, out = _scene(resting), _poses(resting)
    bars = {(b.name, b.kind, k): (b.start.where(out), b.end.where(out)) for k, b in enumerate(scene.bars)}
    left = [ends for (name, _, _), ends in bars.items() if name[:2] in ("fl", "rl")]
    right = [ends for (name, _, _), ends in bars.items() if name[:2] in ("fr", "rr")]
    assert len(left) == len(right) > 15
    for one, other in zip(left, right, strict=True):
        np.testing.assert_allclose(one, np.array(other) * MIRROR, atol=1e-6)
    wheels = {w.name: w.centre.where(out) for w in scene.wheels}
    np.testing.assert_allclose(wheels["fl"], MIRROR * wheels["fr"], atol=1e-6)


def test_hubs_are_a_loaded_radius_above_the_ground(resting: Car) -> None:
    # the tyre's own law: load over vertical stiffness is what the unloaded radius shrinks by (upright wheels)
    tyre = (CONFIGS / "tyres" / "155_80_r13.tir").read_text()
    figures = {
        line.split("=")[0].strip(): line.split("=")[1].split("$")[0] for line in tyre.splitlines() if "=" in line
    }
    radius, stiffness = float(figures["UNLOADED_RADIUS"]), float(figures["VERTICAL_STIFFNESS"])
    for wheel, weight in zip(_scene(resting).wheels, resting.each("load"), strict=True):
        assert wheel.radius == pytest.approx(radius)
        assert wheel.centre.where(_poses(resting))[2] == pytest.approx(radius - weight / stiffness, abs=2e-4)


@pytest.mark.drill
def test_what_is_rigid_keeps_its_length_in_a_lane_change() -> None:
    car = Car()
    rigid = [b for b in _scene(car).bars if b.kind in ("arm", "upright", "link")]
    assert len(rigid) > 30
    first = np.array([_length(b, _poses(car)) for b in rigid])
    springs = [b for b in _scene(car).bars if b.kind == "spring"]
    lengths = []
    car.drive(4.0, throttle=0.6)
    for k in range(500):
        car.set(steering_angle=1.2 * np.sin(2.0 * np.pi * 0.4 * 5e-3 * k), throttle=0.3)
        car.step()
        if k % 10 == 0:
            np.testing.assert_allclose([_length(b, _poses(car)) for b in rigid], first, atol=1e-6)
            lengths.append([_length(b, _poses(car)) for b in springs])
    assert abs(car["ay"]) > 0.0 and car["vx"] > 5.0
    assert np.ptp(lengths, axis=0).min() > 2e-3  # the springs did work
    np.testing.assert_allclose([_length(b, _poses(car)) for b in springs], car.each("spring_length"), atol=1e-6)


def test_axles_and_spin_follow_the_outputs() -> None:
    car = Car()
    car.drive(3.0, throttle=0.4, steering_angle=1.0)
    scene = _scene(car)
    solid = scene.solids[0]
    out = _poses(car)
    ahead, left = out[solid.frame, 1:3]
    for wheel, steer in zip(scene.wheels, car.each("steer"), strict=True):
        axle = out[wheel.centre.frame, 2]
        assert np.arctan2(-axle @ ahead, axle @ left) == pytest.approx(steer, abs=1e-3)
        np.testing.assert_allclose(out[wheel.centre.frame, 1:] @ out[wheel.centre.frame, 1:].T, np.eye(3), atol=1e-9)
    car.step()
    after = _poses(car)
    for wheel, speed in zip(scene.wheels, car.each("wheel_speed"), strict=True):
        # forwards, the top of a wheel goes ahead: it turns right-handed about its axle
        k = wheel.centre.frame
        turned = np.arctan2(np.cross(out[k, 1], after[k, 1]) @ out[k, 2], out[k, 1] @ after[k, 1])
        assert turned / 5e-3 == pytest.approx(speed, rel=0.02)


def test_arrows_and_levers_name_channels_there_are(resting: Car) -> None:
    scene, names = _scene(resting), output_layout(resting.model).names
    assert {c for a in scene.arrows for c in (a.along, a.across, a.load)} <= set(names)
    assert {lever.channel for lever in scene.levers} <= set(names)
    assert scene.load == pytest.approx(resting.each("load").mean(), rel=1e-3)


# ---- mechanisms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["four_bar", "bricard", "double_pendulum", "spatial_slider_crank"])
def test_bars_of_a_mechanism_keep_their_lengths(name: str) -> None:
    described = read_mechanism(CONFIGS / "mechanisms" / f"{name}.toml")
    h = 1e-3
    system = described.mechanism.compile(h=h)
    state = start(system.state(), rates=described.velocities)
    scene, frames = scene_of(system)
    out = poses(scene.frames)
    frames(state.vector, np.zeros(0), out)
    assert {b.name for b in scene.bars} | {s.name for s in scene.solids} == set(described.mechanism.bodies)
    first = np.array([_length(b, out) for b in scene.bars])
    places = np.array([b.end.where(out) for b in scene.bars])
    assert (first > 0.0).all()
    work = system.work()
    for _ in range(200):
        natural_step(system.ints, system.reals, state.vector, work, system.hook, h)
    frames(state.vector, np.zeros(0), out)
    np.testing.assert_allclose([_length(b, out) for b in scene.bars], first, atol=1e-6)
    assert np.abs(np.array([b.end.where(out) for b in scene.bars]) - places).max() > 1e-3
    assert scene.size > 0.0


def test_a_mechanism_of_the_plane_stands_upright() -> None:
    described = read_mechanism(CONFIGS / "mechanisms" / "four_bar.toml")
    system = described.mechanism.compile(h=1e-3)
    state = system.state()
    scene, frames = scene_of(system)
    out = poses(scene.frames)
    frames(state.vector, np.zeros(0), out)
    crank = next(b for b in scene.bars if b.name == "crank")
    np.testing.assert_allclose(crank.end.where(out), [0.276318298200866, 0.0, 0.116825502692595], atol=1e-12)


# ---- the single-track car --------------------------------------------------------------------------------------------


class _DataSource:
    """The single-track car or the buggy, at one frame."""

    title, live = "test", False

    def __init__(self, vehicle: str, road: str | None = None):
        sources = gather(CONFIGS / "vehicles" / vehicle, {"road": CONFIGS / "roads" / road} if road else None)
        self.model, self.params = make_machine(sources)
        self.config = load(CONFIGS / "drive.toml")
        self.files = {**sources.files, "manoeuvre.toml": _manoeuvre("follow_circuit")}
        self.state = np.zeros(len(self.model.states))
        work = np.zeros(self.model.work_size)
        self.model.initial(self.state, self.params, self.model.tables, work)
        self.record = np.zeros(1, output_layout(self.model).dtype)
        for quantity, value in zip(self.model.outputs, work, strict=False):
            self.record[quantity.name] = value

    def poll(self) -> Frame:
        return Frame(int(self.record["t_ns"][0]), self.record[0], self.state)

    def steps(self) -> np.ndarray:
        return self.record[:0]

    def alive(self) -> dict[str, bool]:
        return {"daq": True, "sim": True}

    def close(self) -> None: ...


def _manoeuvre(name: str) -> bytes:
    return (CONFIGS / "manoeuvres" / f"{name}.toml").read_bytes()


def test_the_single_track_car_stands_on_four_wheels_where_its_state_has_it() -> None:
    feed = _DataSource("buggy_single_track.toml")
    scene = feed.model.shown.scene
    assert scene is not None
    feed.state[:3] = 10.0, -4.0, 0.5
    out = poses(scene.frames)
    feed.model.shown.frames(feed.state, feed.params, out)
    wheels = {w.name: w.centre.where(out) for w in scene.wheels}
    assert np.linalg.norm(wheels["fl"] - wheels["fr"]) == pytest.approx(1.32)
    assert np.linalg.norm(0.5 * (wheels["fl"] + wheels["fr"] - wheels["rl"] - wheels["rr"])) == pytest.approx(2.25)
    ahead = np.array([np.cos(0.5), np.sin(0.5), 0.0])
    np.testing.assert_allclose(0.5 * (wheels["fl"] + wheels["fr"]), [10, -4, 0.275] + 1.288 * ahead, atol=1e-9)
    names = output_layout(feed.model).names
    assert {c for a in scene.arrows for c in (a.along, a.across, a.load)} <= set(names)
    assert {c for w in scene.wheels for c in (w.steer, w.rate) if c} <= set(names)


def test_wheels_turn_with_the_channels_that_their_scene_names() -> None:
    feed = _DataSource("buggy_single_track.toml")
    feed.state[2] = 0.5
    feed.record["road_wheel_angle"], feed.record["time"] = 0.2, 1.0
    motion = Motion(feed.model, feed.params)
    assert motion.move(feed.state, feed.record[0])
    axles = [axes[:, 1] for axes in motion.axes]
    np.testing.assert_allclose(axles[0], [-np.sin(0.7), np.cos(0.7), 0.0], atol=1e-12)
    np.testing.assert_allclose(axles[2], [-np.sin(0.5), np.cos(0.5), 0.0], atol=1e-12)
    feed.record["wheel_speed_rear"], feed.record["time"] = 10.0, 1.05
    assert motion.move(feed.state, feed.record[0])
    np.testing.assert_allclose([axes[:, 1] for axes in motion.axes], axles, atol=1e-12)
    for axes, yaw, spin in zip(motion.axes, (0.7, 0.7, 0.5, 0.5), (0.0, 0.0, 0.5, 0.5), strict=True):
        ahead = np.array([np.cos(yaw), np.sin(yaw), 0.0])
        np.testing.assert_allclose(axes[:, 0], np.cos(spin) * ahead - [0.0, 0.0, np.sin(spin)], atol=1e-9)


def test_rollers_and_points_of_contact_are_where_the_machine_has_them(server: Any) -> None:
    from tandem.view.scene_view import SceneView

    feed = _DataSource("../omni/three_wheels.toml")
    feed.state[0], feed.state[2] = 0.4, 0.05
    seen = Seen(server)
    stage = SceneView(server, feed)
    stage.show(feed.poll())
    places = {s.name: seen.node(f"/machine/{s.name}").position for s in stage.scene.solids[1:]}
    assert len([name for name in places if "roller" in name]) == 30
    assert places["contact1"][2] == pytest.approx(-0.05, abs=1e-9)  # from the axles, which the first solid moves with
    np.testing.assert_allclose(seen.node("/machine").position, [0.4, 0.0, 0.05], atol=1e-6)


def test_a_machine_without_a_scene_has_a_page_too(server: Any) -> None:
    from dataclasses import replace

    from tandem.view.scene_view import SceneView

    feed = _DataSource("buggy_single_track.toml")
    feed.model = feed.model.having(replace(feed.model.shown, scene=None))
    page = Seen(server)
    SceneView(server, feed).show(feed.poll())
    assert page.node("/floor/grid") is None and "describes no scene" in page.text


# ---- the ground and the way ------------------------------------------------------------------------------------------


def test_the_ground_is_the_road_within_its_budget() -> None:
    for name in ("demo_track", "bump", "mu_split", "slope_10_percent", "rough_c"):
        ground = Ground.of({f"road:{k}": v for k, v in gather_road(name).items()}, "road")
        assert not ground.flat
        x, y, _ = ground.axes_around(3.0, -5.0)
        assert (np.diff(x) > 0.0).all() and (np.diff(y) > 0.0).all()
        assert x[0] < -100.0 and x[-1] > 100.0
        meshes = ground.meshes(x, y)
        assert sum(len(faces) for _, faces in meshes.values()) <= 60_000
        vertices = np.concatenate([v for v, _ in meshes.values()])
        for v in vertices[:: len(vertices) // 20]:
            assert v[2] == pytest.approx(ground.height(v[0], v[1]), abs=1e-9)
        assert ("slippery" in meshes) == (name in ("demo_track", "mu_split"))
        for v, faces in meshes.values():  # triangles look upwards
            a, b, c = v[faces[:, 0]], v[faces[:, 1]], v[faces[:, 2]]
            assert (np.cross(b - a, c - a)[:, 2] > 0.0).all()


def gather_road(name: str) -> dict[str, bytes]:
    from tandem.multibody import ground as roads

    return roads.sources(CONFIGS / "roads" / f"{name}.toml")


def test_bad_files_draw_nothing() -> None:
    assert Ground.of({}, "road").flat
    assert Ground.of({"road:a.toml": b"\xff"}, "road").flat
    assert Ground.of({"road:a.toml": b"[surface]\nkind = 'nowhere'"}, "road").flat
    bump = {f"road:{k}": v for k, v in gather_road("bump").items()}
    assert Ground.of(bump, "").flat and not Ground.of(bump, "road").flat  # the machine says which of its files it is
    for text in (
        b"",
        b"\xff",
        b"follow = 3",
        b"[follow]",
        b"[follow]\npath = [[0, 0]]",
        b"[follow]\npath = [[0], [1]]",
    ):
        assert way_of({"manoeuvre.toml": text}) is None
    assert way_of({}) is None


def test_the_way_passes_its_points() -> None:
    for name in ("follow_circuit", "follow_lane_change"):
        found = way_of({"manoeuvre.toml": _manoeuvre(name)})
        assert found is not None
        points, line = found
        assert max(np.linalg.norm(line - p, axis=1).min() for p in points) < 1e-9
        assert np.linalg.norm(np.diff(line, axis=0), axis=1).max() < 2.5


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_turning() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        q = generator.normal(size=4)
        q /= np.linalg.norm(q)
        matrix = np.column_stack([rotated(e, q) for e in np.eye(3)])
        np.testing.assert_allclose(matrix.T @ matrix, np.eye(3), atol=1e-12)
        again = geometry.quaternion(matrix)
        assert abs(again @ q) == pytest.approx(1.0)
        other = generator.normal(size=4)
        other /= np.linalg.norm(other)
        p = generator.normal(size=3)
        np.testing.assert_allclose(rotated(p, geometry.times(other, q)), rotated(rotated(p, q), other), atol=1e-12)
    directions = np.array([[0, 0, 2.0], [0, 0, -1.0], [1, 2, 3.0], [0, 0, 0]])
    for d, q in zip(directions[:3], geometry.along(directions), strict=False):
        np.testing.assert_allclose(rotated(np.array([0, 0, 1.0]), q), d / np.linalg.norm(d), atol=1e-12)


@pytest.mark.parametrize(
    "mesh",
    [
        geometry.cylinder(),
        geometry.tread(0.3, 0.15, 0.18),
        geometry.torus(0.2, 0.02),
        geometry.box(-np.ones(3), np.ones(3)),
    ],
)
def test_closed_meshes_look_outwards(mesh: geometry.Mesh) -> None:
    v, f = mesh
    # the volume within, by Gauss: positive if every side is the right way round
    assert np.einsum("ij,ij->", v[f[:, 0]], np.cross(v[f[:, 1]], v[f[:, 2]])) > 0.0


# ---- a stage, without a browser --------------------------------------------------------------------------------------


def test_two_stages_share_a_page(server: Any) -> None:
    from tandem.view.scene_view import SceneView

    feed = _DataSource("buggy.toml", "demo_track.toml")
    first = SceneView(server, feed)
    ghost = SceneView(
        server, _DataSource("buggy_single_track.toml"), prefix="/ghost", colour=(240, 120, 40), ghost=True
    )
    frame = feed.poll()
    for k in range(60):  # some metres on, so that the path and the road are made too
        moved = frame.state.copy()
        first.show(Frame(k, frame.step, moved))
    ghost.show(_DataSource("buggy_single_track.toml").poll())
    assert ghost.cameras is None and first.cameras is not None


def test_no_numbers_and_strange_states_end_nothing(server: Any) -> None:
    from tandem.view.scene_view import SceneView

    feed = _DataSource("buggy.toml")
    seen = Seen(server)
    stage = SceneView(server, feed)
    frame = feed.poll()
    stage.show(frame)
    kept = seen.node("/machine").position.copy()
    stage.show(Frame(1, frame.step, np.full_like(frame.state, np.nan)))
    stage.show(Frame(2, frame.step, frame.state[:5]))
    np.testing.assert_array_equal(seen.node("/machine").position, kept)
    broken = feed.record.copy()
    for name in ("load_fl", "force_x_fr", "steering_angle"):
        broken[name] = np.nan
    stage.show(Frame(3, broken[0], frame.state))


def test_arrows_have_a_legend_and_the_floor_can_be_hidden(server: Any) -> None:
    from tandem.view.scene_view import SceneView

    feed, page = _DataSource("buggy.toml"), Seen(server)
    stage = SceneView(server, feed)
    stage.show(feed.poll())
    assert "load of a wheel" in page.text and "force along the ground" in page.text
    load = stage._loads.points[:, 1] - stage._loads.points[:, 0]
    page["1 m of arrow [N]"] = 2 * page["1 m of arrow [N]"]
    stage.show(feed.poll())
    np.testing.assert_allclose(stage._loads.points[:, 1] - stage._loads.points[:, 0], 0.5 * load, atol=1e-5)
    assert page.node("/floor/grid").plane_opacity == 1.0
    page["floor"] = False
    assert not page.node("/floor").visible


def test_what_lies_below_the_floor_is_seen_through_it(server: Any) -> None:
    from tandem.view.scene_view import SceneView

    feed, page = _DataSource("buggy.toml"), Seen(server)
    stage = SceneView(server, feed)
    lower = feed.poll().state.copy()
    lower[[k for k, q in enumerate(feed.model.states) if q.name.endswith(".z") and " of " not in q.name]] -= 1.0
    stage.show(Frame(0, feed.poll().step, lower))
    assert page.node("/floor/grid").plane_opacity < 1.0


def test_the_machine_goes_to_a_page_with_its_camera(server: Any) -> None:
    """By one way: what comes by two comes at two times, and a slow page looks where the machine is not."""
    from tandem.view.cameras import Cameras, Subject

    sent: list[str] = []

    class Noting:
        def __init__(self, what: str):
            self.__dict__["_what"] = what

        def __setattr__(self, name: str, value: Any) -> None:
            sent.append(f"{self._what} {name}")

    class Page:
        client_id, camera = 1, Noting("camera")

        class scene:  # noqa: N801
            @staticmethod
            def add_frame(name: str, **_: Any) -> Any:
                return Noting(name)

        class gui:  # noqa: N801
            add_button_group = staticmethod(lambda *_, **__: SimpleNamespace(on_click=lambda act: act))

        @staticmethod
        @contextlib.contextmanager
        def atomic() -> Iterator[None]:
            sent.append("begin")
            yield
            sent.append("end")

    class Server:
        def __init__(self) -> None:
            self.on_client_connect = self.on_client_disconnect = lambda act: None

        def get_clients(self) -> dict[int, Any]:
            return {1: Page}

    cameras = Cameras(Server(), usual_cameras(2.0), "/machine")
    cameras._arrived(Page)
    cameras.follow(Subject(np.zeros(3), np.eye(3)), 0)
    assert sent[0] == "begin" and sent[-1] == "end"
    assert {"/machine position", "/machine wxyz", "camera position", "camera look_at"} < set(sent)


def test_an_endless_road_is_sent_anew_and_nothing_of_the_old_one_stays(server: Any) -> None:
    from tandem.view.scene_view import SceneView

    feed = _DataSource("buggy.toml", "mu_split.toml")
    seen = Seen(server)
    stage, motion = SceneView(server, feed), Motion(feed.model, feed.params)
    frame = feed.poll()
    columns = [k for k, q in enumerate(feed.model.states) if q.name.endswith(".x") and " of " not in q.name]
    points = [k for k in columns if not feed.model.states[k].name.startswith(("ahead", "left", "up"))]
    points = [k for k in points if not any(v in feed.model.states[k].name for v in ("axle", "normal", "strut"))]
    for k, x in enumerate((0.0, 1.0, 30.0, -600.0)):
        moved = frame.state.copy()
        moved[points] += x
        stage.show(Frame(k, frame.step, moved))
        assert motion.move(moved, frame.step)
        np.testing.assert_allclose(seen.node("/machine").position, motion.machine()[0])
        assert (seen.node("/floor/slippery") is not None) == (x > -600.0)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_every_machine_that_needs_no_file_has_a_scene_whose_frames_are_rotations(name: str) -> None:
    module = importlib.import_module(MACHINES[name])
    machine = getattr(module, "MACHINE", None)
    if machine is None or hasattr(module, "make"):
        pytest.skip("is made from a file")
    scene = machine.shown.scene
    assert scene is not None and (scene.solids or scene.bars)
    params = np.array([p.value for p in machine.parameters])
    state, work = np.zeros(len(machine.states)), np.zeros(machine.work_size)
    machine.initial(state, params, machine.tables, work)
    out = poses(scene.frames)
    machine.shown.frames(state, params, out)
    for frame in out:
        assert frame[1:] @ frame[1:].T == pytest.approx(np.eye(3), abs=1e-12)
        assert np.linalg.det(frame[1:]) == pytest.approx(1.0)


def test_the_tilting_vehicle_leans_to_the_right() -> None:
    state, params, out = np.zeros(6), np.zeros(12), poses(2)
    state[tilting.S.roll] = 0.3
    tilting.frames(state, params, out)
    assert Point(tilting.BODY, (0.0, 0.0, 1.0)).where(out)[1] == pytest.approx(-math.sin(0.3))
    assert Point(tilting.BASE, (0.0, 0.0, 1.0)).where(out)[1] == 0.0


def test_button_string_and_back_check_of_the_action_stand_where_they_are_met() -> None:
    machine = multibody.MACHINE
    params = np.array([p.value for p in machine.parameters])
    state, work, out = np.zeros(len(machine.states)), np.zeros(machine.work_size), poses(machine.shown.scene.frames)
    machine.initial(state, params, machine.tables, work)
    machine.shown.frames(state, params, out)
    names = {solid.name for solid in machine.shown.scene.solids} | {bar.name for bar in machine.shown.scene.bars}
    assert {"let-off button", "string", "back-check"} <= names
    # the jack's toe is below its button, the hammer's head below the string
    toe = Point(1 + action.JACK, (-action.TOE, 0.0, 0.0)).where(out)
    assert toe[2] < out[1 + drawing.BUTTON, 0, 2]
    head = Point(1 + action.HAMMER, (action.HAMMER_REACH, 0.0, 0.0)).where(out)
    assert head[2] < out[1 + drawing.STRING, 0, 2] < head[2] + 0.1
