"""What verify/robustness/fuzz.py throws inputs at: everything of tandem that reads what others wrote.

A target takes bytes and returns whether they were accepted. A refusal is one of its documented errors, caught here;
whatever else it raises is a finding. Each goes as deep as a user would: a record that could be read is looked at,
exported and replayed, a vehicle makes steps, a road is driven on, a command is obeyed.
"""

import contextlib
import io
import json
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import msgpack
import numpy as np
from rich.console import Console

from verify import ROOT
from verify.robustness import fuzz_inputs as change

CONFIGS = ROOT / "configs"
Change = Callable[[Random, bytes, list[bytes]], bytes]


@dataclass
class Target:
    name: str
    seeds: list[bytes]
    run: Callable[[bytes], bool]  # True accepted, False refused
    change: Change
    share: float  # of all inputs
    least: int = 0  # of a million

    def input(self, seed: int, index: int) -> bytes:
        r = Random(f"{seed} {self.name} {index}")
        chosen = r.choice(self.seeds)
        # the first ones, and some more, as they are: the door can be passed at all
        if index < 2 or r.random() < 0.01:
            return chosen
        try:
            return self.change(r, chosen, self.seeds)
        except Exception:  # what one change leaves may be too deep, or too strange, for the next
            return change.changed_bytes(r, chosen, self.seeds)


Maker = Callable[[Path], Target]  # with a folder of its own


def _toml_change(trees: list[dict[str, Any]]) -> Change:
    """Three of four as a tree, the others as text."""
    known = change.keys_of(trees)

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        if r.random() < 0.25:
            return change.changed_text(r, data, others)
        return change.toml(change.changed_tree(r, tomllib.loads(data.decode()), known, trees))

    return changed


def _packed_change(keys: list[str]) -> Change:
    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        if r.random() < 0.4:
            return change.changed_bytes(r, data, others)
        tree = change.changed_tree(r, msgpack.unpackb(data), keys, [msgpack.unpackb(r.choice(others))])
        return change.packed(r, tree)

    return changed


@dataclass
class _Wire:
    """In a socket's place."""

    received: bytes = b""
    sent: list[bytes] = field(default_factory=list)

    def recv(self) -> bytes:
        return self.received

    def recv_multipart(self) -> list[bytes]:
        return [self.received]

    def send(self, data: Any) -> None:
        self.sent = [bytes(data)]

    def set(self, *_: Any) -> None:
        pass

    def connect(self, _: str) -> None:
        pass

    def disconnect(self, _: str) -> None:
        pass

    def bind(self, _: str) -> None:
        pass

    def close(self) -> None:
        pass


class _Wires:
    """In a context's place: every socket is that one."""

    def __init__(self) -> None:
        self.wire = _Wire()

    def socket(self, _: int) -> _Wire:
        return self.wire


class _Ring:
    """A ring in private memory that is ours to write."""

    def __init__(self, layout: Any, capacity: int):
        from sync.ring.ring import private_ring

        self.layout, self.words, self.epoch = layout, private_ring(layout, capacity), 1

    @property
    def head(self) -> int:
        from sync.ring.ring import HEAD_WORD

        return int(self.words[HEAD_WORD])


# ---- messages --------------------------------------------------------------------------------------------------------


def wire(_: Path) -> Target:
    from sync.ring.block import Channel, Layout
    from sync.ring.ring import newest
    from sync.transport.message_form import Form, write_message
    from sync.transport.wire import BLOCKS, Receiver

    kinds = ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
    car = Layout((Channel("brake", "i2", "count", -200_000), Channel("throttle", "i2"), Channel("steering", "i4")))
    every = Layout(tuple(Channel(f"c_{kind}", kind) for kind in kinds))
    wires: Any = _Wires()
    receivers = [
        Receiver(wires, "", _Ring(layout, 16), any_layout=loose) for layout in (car, every) for loose in (False, True)
    ]
    seeds = []
    for layout in (car, every):
        form = Form(layout)
        message = form.text.copy()
        for k in range(4):
            block = np.full(layout.words, 3 * k + 1, np.int64)
            block[1] = 7
            write_message(block, form.fields, message)
            seeds.append(message.tobytes())
            seeds.append(msgpack.packb(msgpack.unpackb(message.tobytes())))

    def run(data: bytes) -> bool:
        wires.wire.received = data
        accepted = False
        for receiver in receivers:
            before = receiver.counts[BLOCKS]
            # the numbers go on for ever here; a huge one must not shut out those that follow
            if receiver.counts[-1] > 2**40 or receiver.counts[BLOCKS] % 64 == 0:
                receiver.counts[-2:] = -1
            took = receiver.receive()
            accepted = accepted or took
            assert receiver.counts[BLOCKS] - before == took
            if took:
                assert newest(receiver.ring.words, receiver._block.copy()) >= 0
        return accepted

    keys = sorted({key for seed in seeds for key in msgpack.unpackb(seed)})
    packed_change = _packed_change(keys)

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        return change._message(r, bytes(22) + data)[22:] if r.random() < 0.2 else packed_change(r, data, others)

    return Target("wire", seeds, run, changed, 0.6)


def clock(_: Path) -> Target:
    from sync.clock import now_ns
    from sync.transport.host_clock import Artificial, ClockClient, ClockServer

    wires = _Wires()
    wires.socket(0)
    server = ClockServer(wires, "", Artificial())  # type: ignore[arg-type]
    sockets = _Wires()
    clients = [ClockClient(sockets, "", bound) for bound in (None, 100_000)]  # type: ignore[arg-type]
    seeds = [msgpack.packb({"version": 1, "a0": 1})]
    seeds += [msgpack.packb({"version": 1, "a0": 1, "b1": 2 * k, "b2": 2 * k + 5, "discipline_ns": 5}) for k in (1, 2)]
    now = int(now_ns())
    seeds += [msgpack.packb({"version": 1, "a0": 1, "b1": now, "b2": now + 9, "discipline_ns": -5})]

    class Echo(_Wire):
        """The question's own instant goes into the answer, or none would ever be believed."""

        def recv(self) -> bytes:
            with contextlib.suppress(Exception):
                answer = msgpack.unpackb(self.received)
                if answer["a0"] == 1:
                    answer["a0"] = msgpack.unpackb(self.sent[0])["a0"]
                    if isinstance(answer["b1"], int) and abs(answer["b1"]) < 10**6:  # about now, there as here
                        answer["b1"], answer["b2"] = answer["a0"] + answer["b1"], answer["a0"] + answer["b2"]
                    return bytes(msgpack.packb(answer))
            return self.received

    for client in clients:
        client._socket = Echo()  # type: ignore[assignment]

    def run(data: bytes) -> bool:
        wires.wire.received = data
        malformed = server.malformed
        server.serve()
        msgpack.unpackb(wires.wire.sent[0])
        accepted = server.malformed == malformed
        for client in clients:
            client._socket.received = data
            before = client.unanswered
            client.exchange()
            client.reading()
            accepted = accepted or client.unanswered == before
        return accepted

    return Target("clock", seeds, run, _packed_change(["version", "a0", "b1", "b2", "discipline_ns"]), 0.1)


def commands(folder: Path) -> Target:
    from sim_service.command_record import LAYOUT, mode
    from sim_service.commands import CommandClient, CommandServer, NoSimulator, obey_all
    from sim_service.contract.machine import default_inputs
    from sim_service.loop_data import MachineData
    from sim_service.registry import load_machine
    from sim_service.reshape import changeable, no_fit
    from sync.config.config import load

    model, params = load_machine(CONFIGS / "vehicles" / "buggy_single_track.toml")
    ring = _Ring(LAYOUT, 1024)
    wires = _Wires()
    server = CommandServer(
        wires, "", ring, model, params.copy(), lambda: ring.head, lambda _: None  # type: ignore[arg-type]
    )  # fmt: skip
    client = CommandClient(load(CONFIGS / "drive.toml"))
    client._socket.close()
    client._socket = wires.wire  # type: ignore[assignment]
    live = [p for p in model.parameters if p.live]
    seeds = [
        msgpack.packb(request)
        for request in (
            {}, {"pause": True}, {"pause": False}, {"steps": 3}, {"slow": 10.0}, {"reset": True},
            {"set": {p.name: p.value for p in live[:3]}}, {"set": {live[0].name: live[0].low}, "pause": True},
        )
    ]  # fmt: skip
    wires.wire.received = seeds[0]
    server.serve()
    seeds.append(wires.wire.sent[0])  # the answer, to the client
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    block = np.zeros(LAYOUT.words, np.int64)
    _, floats, shapes = changeable(model)
    machine = MachineData(
        state,
        default_inputs(model),
        params,
        model.tables,
        work,
        state.copy(),
        work.copy(),
        mode(),
        floats,
        shapes,
    )
    cursor = 0

    def run(data: bytes) -> bool:
        nonlocal cursor
        wires.wire.received = data
        refused = server.refused
        server.serve()
        msgpack.unpackb(wires.wire.sent[0])
        cursor = obey_all(ring.words, cursor, block, no_fit, machine)
        accepted = server.refused == refused
        wires.wire.received = data
        with contextlib.suppress(NoSimulator):
            client.ask({})
            accepted = True
        return accepted

    keys = ["set", "pause", "steps", "slow", "reset", *(p.name for p in model.parameters)]
    return Target("commands", seeds, run, _packed_change(keys), 0.08)


# ---- files -----------------------------------------------------------------------------------------------------------


def _refused(error: Exception) -> bool:
    """A refusal; its error must have a text."""
    if not str(error).strip():
        raise AssertionError("an error without a text")
    return False


def _refusing(errors: Any, what: Callable[[bytes], None]) -> Callable[[bytes], bool]:
    def run(data: bytes) -> bool:
        try:
            what(data)
        except errors as error:
            return _refused(error)
        return True

    return run


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


_PART = b"\n#### the next file ####\n"


def config(folder: Path) -> Target:
    """A configuration, a fragment over it, and what --set says."""
    from sync.config.config import load
    from sync.errors import ConfigError

    files = sorted(CONFIGS.glob("*.toml"))
    fragment = (
        b"[inputs.steering]\nzero_counts = 12.5\n[inputs.throttle]\nfull_counts = 400.0\n[daq]\nrate_hz = 500.0\n"
    )
    settings = b"daq.rate_hz=2000\ninputs.steering.sign=-1\nname=other"
    seeds = [_PART.join((file.read_bytes(), fragment, settings)) for file in files]
    trees = [tomllib.loads(file.read_text()) for file in files]
    whole = _toml_change(trees)

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        parts = data.split(_PART)
        which = r.randrange(3)
        if which < 2:
            parts[which] = whole(r, parts[which], [other.split(_PART)[which] for other in others])
        else:
            parts[2] = change.changed_text(r, parts[2], [parts[0], parts[2]])
        return _PART.join(parts)

    def what(data: bytes) -> None:
        main, over, lines = (*data.split(_PART), b"", b"")[:3]
        _written(folder / "main.toml", main)
        _written(folder / "over.toml", over)
        overrides = [line for line in lines.decode("utf-8", "replace").split("\n") if line]
        found = load(folder / "main.toml", ['include=["over.toml"]', *overrides])
        assert found.daq.layout.words > 0 and found.step_ns > 0 and found.period_ns > 0
        _ = found.transport.clock_mode, found.endpoint("daq"), found.clock_endpoint, found.daq.layout.struct
        found.model_dump_json()

    return Target("config", seeds, _refusing(ConfigError, what), changed, 0.03, 10_000)


def sources(folder: Path) -> Target:
    """The table of a source and everything that opening it looks at."""
    from daq_service.devices import open_device
    from sync.config.config import load
    from sync.errors import ConfigError, DeviceError

    for name in ("can", "manoeuvres", "vehicles"):
        shutil.copytree(CONFIGS / name, folder / name)
    files = [CONFIGS / f"{name}.toml" for name in ("drive", "can", "gamepad", "page", "remote", "onboard")]
    trees = [tomllib.loads(file.read_text()) for file in files]
    known = change.keys_of([tree.get("source", {}) for tree in trees])

    def changed(r: Random, data: bytes, _: list[bytes]) -> bytes:
        tree = tomllib.loads(data.decode())
        others = [t["source"] for t in trees]
        tree["source"] = change.changed_tree(r, tree["source"], known, others)
        if r.random() < 0.2:
            tree["daq"] = change.changed_tree(r, tree["daq"], known, others)
        return change.toml(tree)

    def what(data: bytes) -> None:
        file = _written(folder / "main.toml", data)
        found = load(file)
        if found.source.get("kind") == "replay":
            return  # a record: has a target of its own
        open_device(found, file)

    seeds = [file.read_bytes() for file in files]
    return Target("sources", seeds, _refusing((ConfigError, DeviceError), what), changed, 0.015, 10_000)


def manoeuvre(folder: Path) -> Target:
    from sync.errors import ConfigError
    from tandem.machines.car.device.driver import (
        MEMORY,
        drive_along,
        evaluate,
        follow_parameters,
        prepare_path,
        profile_tables,
        read_manoeuvre,
    )

    files = sorted((CONFIGS / "manoeuvres").glob("*.toml"))

    def what(data: bytes) -> None:
        found = read_manoeuvre(_written(folder / "manoeuvre.toml", data))
        if found.follow is not None:
            path, memory = prepare_path(found.follow), np.zeros(MEMORY)
            for k in range(5):
                drive_along(path, follow_parameters(found.follow), memory, 3.0 * k, 0.0, 0.0, 10.0, True, 1e-3)
        for profile in (found.steering_deg, found.throttle, found.brake_bar):
            for t in (-1.0, 0.0, 0.37, 7.0, 1e9):
                evaluate(*profile_tables(profile), t)

    changed = _toml_change([tomllib.loads(file.read_text()) for file in files])
    seeds = [file.read_bytes() for file in files]
    return Target("manoeuvre", seeds, _refusing(ConfigError, what), changed, 0.015, 10_000)


def tir(folder: Path) -> Target:
    from sync.errors import ConfigError
    from tandem.machines.car.tyres.tir import read_tir, tyre_vector

    def what(data: bytes) -> None:
        file = _written(folder / "tyre.tir", data)
        assert np.isfinite(tyre_vector(read_tir(file, tolerant=True), lacking=True)).all()
        assert np.isfinite(tyre_vector(read_tir(file))).all()  # what is read strictly is read tolerantly

    published = ROOT / "tests" / "data" / "real" / "tyres" / "MagicFormula61_Parameters.tir"
    seeds = [(CONFIGS / "tyres" / "155_80_r13.tir").read_bytes(), published.read_bytes()]
    return Target("tir", seeds, _refusing(ConfigError, what), change.changed_text, 0.03, 10_000)


def tyre_rows(folder: Path) -> Target:
    """Rows of a tyre rig, as `tandem tyre fit` reads them."""
    from sync.errors import ConfigError
    from tandem.machines.car.studies.tyre.rows import read_rows

    def what(data: bytes) -> None:
        rows = read_rows(_written(folder / "rig.csv", data))
        assert all(np.isfinite(column).all() and len(column) == len(rows) for column in rows.columns.values())

    cells = [(k % 19 - 9, 500 * (1 + k % 3), 700 * (9 - k % 19), k % 4, 80 + k % 5) for k in range(240)]
    lines = "".join(",".join(str(cell) for cell in row) + "\n" for row in cells)
    seeds = [f"SA,FZ,FY,IA,P\n{lines}".encode(), f"SA [deg];FZ [N];FY [N];IA [deg];P [kPa]\n{lines}".encode()]
    seeds[1] = seeds[1].replace(b",", b";")
    return Target("tyre_rows", seeds, _refusing(ConfigError, what), change.changed_text, 0.01, 10_000)


def mechanism(folder: Path) -> Target:
    """As `tandem mechanism` does it: read, closed at its start, some steps."""
    from sync.errors import ConfigError
    from tandem.mechanism.run import load
    from tandem.multibody.natural.api import run

    files = sorted((CONFIGS / "mechanisms").glob("*.toml"))

    def what(data: bytes) -> None:
        found, state = load(_written(folder / "mechanism.toml", data))
        h = 1e-3 * found.file.run.step_ms
        run(state, 3 * h, h, strict=False)  # what diverges says so in its record

    changed = _toml_change([tomllib.loads(file.read_text()) for file in files])
    seeds = [file.read_bytes() for file in files]
    return Target("mechanism", seeds, _refusing(ConfigError, what), changed, 0.012, 10_000)


def dbc(folder: Path) -> Target:
    """A DBC under the shipped mapping, and frames against what came of it."""
    from daq_service.devices import open_device
    from sync.config.config import load
    from sync.errors import ConfigError

    (folder / "can").mkdir()
    file = _written(folder / "can.toml", (CONFIGS / "can.toml").read_bytes())
    loaded = load(file)
    frames = [bytes(n) for n in (0, 1, 8, 64)] + [b"\xff" * 8, bytes(range(8))]

    def what(data: bytes) -> None:
        _written(folder / "can" / "example.dbc", data)
        source: Any = open_device(loaded, file)
        for frame in source._frames.values():
            for content in frames:
                frame.read(content)

    seeds = [(CONFIGS / "can" / "example.dbc").read_bytes()]
    return Target("dbc", seeds, _refusing(ConfigError, what), change.changed_text, 0.01, 10_000)


def _driven(road: np.ndarray) -> None:
    from tandem.multibody.ground import describe, outside, surface

    describe(road)
    for x, y in ((0.0, 0.0), (12.3, -1.0), (1e3, 50.0), (-1e9, 1e9), (1e300, -1e300), (5.0, 2.0)):
        surface(road, x, y)
        outside(road, x, y)


def road(folder: Path) -> Target:
    """A road file, and the grid that it may name."""
    from sync.errors import ConfigError
    from tandem.multibody.ground import make_road, road_from_sources, sources

    files = sorted((CONFIGS / "roads").glob("*.toml"))
    grid = b"\n".join(b",".join(b"%.3f" % (0.01 * (i * j % 7)) for j in range(6)) for i in range(8)) + b"\n"
    extra = (
        b'friction = 0.9\n[surface]\nkind = "grid"\nfile = "heights.csv"\norigin = [0.0, -5.0]\nspacing = [2.0, 2.0]\n'
    )
    texts = [file.read_bytes() for file in files if file.stem not in ("demo_track", "rough_c")]
    # as shipped, roughness has far more nodes than a million inputs have time for
    texts.append(b'[roughness]\niso_class = "C"\nlength = 40.0\nlongest = 30.0\nwidth = 2.0\nspacing = 0.08\n')
    texts.append(extra)
    seeds = [text + _PART + grid for text in texts]
    tree_change = _toml_change([tomllib.loads(text.decode()) for text in texts])

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        text, heights = data.split(_PART)
        if b"heights.csv" in text and r.random() < 0.5:
            return text + _PART + change.changed_text(r, heights, [heights])
        return tree_change(r, text, [other.split(_PART)[0] for other in others]) + _PART + heights

    def what(data: bytes) -> None:
        text, heights = (*data.split(_PART), b"")[:2]
        _written(folder / "heights.csv", heights)
        file = _written(folder / "road.toml", text)
        ground = make_road(file)
        _driven(ground)
        if len(ground) < 10_000:
            assert road_from_sources(sources(file)).tobytes() == ground.tobytes()

    return Target("road", seeds, _refusing(ConfigError, what), changed, 0.02, 10_000)


def crg(folder: Path) -> Target:
    from sync.errors import ConfigError
    from tandem.multibody.ground import make_road
    from tests.tandem.multibody.ground.crg_files import crg_bytes

    rows = np.zeros((14, 6))
    rows[:, 0] = 0.2 + 0.3 * np.sin(np.arange(14) / 4.0)
    rows[:, 1:3] = 0.02
    rows[:, 3:] = 0.01 * np.arange(14)[:, None]
    names = ["reference line phi,rad", "reference line banking,m/m", "reference line slope,m/m"]
    names += [f"long section at v = {v},m" for v in (-1.5, 0.0, 2.0)]
    start = ["REFERENCE_LINE_START_X = 3.0", "REFERENCE_LINE_START_U = 0.0", "REFERENCE_LINE_END_U = 6.5"]
    seeds = [crg_bytes(form, 0.5, names, rows, start) for form in ("LRFI", "LDFI", "KRBI", "KDBI")]
    seeds.append(
        crg_bytes(
            "LRFI",
            0.5,
            [n.replace("at v = ", "") for n in names[:3]] + ["long section 1,m", "long section 2,m"],
            rows[:, :5],
            ["LONG_SECTION_V_INCREMENT = 1"],
        )
    )
    files = [
        _written(folder / name, b'[surface]\nkind = "crg"\nfile = "road.crg"\n' + more)
        for name, more in (("a.toml", b""), ("b.toml", b'missing = "extend"\nignore_options = true\nat = [0.0, 0.0]\n'))
    ]

    def what(data: bytes) -> None:
        _written(folder / "road.crg", data)
        ground = None
        for file in files:
            ground = make_road(file)
            _driven(ground)

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        return (change.changed_text if r.random() < 0.6 else change.changed_bytes)(r, data, others)

    return Target("crg", seeds, _refusing(ConfigError, what), changed, 0.015, 10_000)


def _pressed(model: Any) -> np.ndarray:
    """Its inputs: of a car turning, accelerating and braking at once, with a torque beside; the rest not given."""
    from sim_service.contract.machine import default_inputs

    inputs = default_inputs(model)
    values = (0.1, 0.0, 0.0, 0.3, 2.0, 50.0)[: len(inputs)]
    inputs[: len(values)] = values
    return inputs


def _stepped(folder: Path) -> Callable[[bytes], None]:
    """A vehicle file beside its tyres is read, and what could be made of it makes some steps."""
    from sim_service.registry import load_machine

    for name in ("tyres", "vehicles"):  # one may name another
        shutil.copytree(CONFIGS / name, folder / name)

    def what(data: bytes) -> None:
        model, params = load_machine(_written(folder / "vehicles" / "vehicle.toml", data))
        state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
        model.initial(state, params, model.tables, work)
        inputs = _pressed(model)
        for _ in range(3):
            model.step(state, inputs, params, model.tables, work, 0.005)

    return what


def vehicle(folder: Path) -> Target:
    """A vehicle file with its tyres; what could be made of it makes some steps."""
    from sync.errors import ConfigError

    what = _stepped(folder)
    files = [CONFIGS / "vehicles" / f"{name}.toml" for name in ("buggy", "buggy_single_track", "kart", "swerve")]

    for file in files:
        what(file.read_bytes())  # compiles; no input is to wait for that
    changed = _toml_change([tomllib.loads(file.read_text()) for file in files])
    seeds = [files[0].read_bytes(), *([files[1].read_bytes()] * 2)]
    return Target("vehicle", seeds, _refusing(ConfigError, what), changed, 0.01, 10_000)


def relative_mechanism(folder: Path) -> Target:
    """The same in relative coordinates: a tree and its loops, code generated for it, some steps."""
    from sync.errors import ConfigError
    from tandem.mechanism.run import load
    from tandem.multibody.code import store
    from tandem.multibody.natural.errors import MechanismError
    from tandem.multibody.relative.run import Runner

    names = ("pendulum", "double_pendulum", "four_bar", "slider_crank", "spatial_slider_crank", "spindle")
    files = [CONFIGS / "mechanisms" / f"{name}.toml" for name in names]

    def what(data: bytes) -> None:
        found, state = load(_written(folder / "mechanism.toml", data), formulation="relative")
        h = 1e-3 * found.file.run.step_ms
        with mock.patch.object(store, "write"):  # nothing of it is to be kept
            Runner(state, found.file.run.scheme).run(3 * h, h, strict=False)

    changed = _toml_change([tomllib.loads(file.read_text()) for file in files])
    seeds = [file.read_bytes() for file in files]
    refusals = (ConfigError, MechanismError)
    return Target("relative_mechanism", seeds, _refusing(refusals, what), changed, 0.001, 5_000)


def relative_vehicle(folder: Path) -> Target:
    """The buggy in relative coordinates, with its tyres; what could be made of it makes some steps. Where the equations
    are others, minutes of writing and compiling, it ends before that."""
    from sync.errors import ConfigError
    from tandem.multibody.code import store
    from tandem.multibody.relative import build

    others = mock.patch.object(build, "write_functions", side_effect=ConfigError("other equations"))

    what = _stepped(folder)
    text = b'formulation = "relative"\n' + (CONFIGS / "vehicles" / "buggy.toml").read_bytes()

    def without_compiling(data: bytes) -> None:
        with others, mock.patch.object(store, "write"):
            what(data)

    what(text)  # compiles; no input is to wait for that
    changed = _toml_change([tomllib.loads(text.decode())])
    return Target("relative_vehicle", [text], _refusing(ConfigError, without_compiling), changed, 0.001, 5_000)


def fmu(folder: Path) -> Target:
    """The description of an FMU, up to the channels of a machine; nothing of it is unpacked or run."""
    from sync.errors import ConfigError
    from tandem.machines.fmu.variables import chosen, read_description
    from tests.foreign_fmu import description

    types = '<Float64 name="typed" valueReference="7" causality="output" declaredType="length" min="-1" max="2"/>'
    text = description(3, True, extra=types + "<Int32 name='n' valueReference='9'><Dimension start='3'/></Int32>")
    seeds = [description(2, False).encode(), description(3, False).encode(), text.encode()]
    seeds.append(
        text.replace("<ModelVariables>", '<TypeDefinitions><Float64Type name="length" unit="m"/></TypeDefinitions>'
                     "<ModelVariables>").encode()
    )  # fmt: skip

    def what(data: bytes) -> None:
        found = read_description(data, "lag.fmu")
        for causality in ("input", "output", "parameter"):
            for variable in chosen(found.variables, causality, None, "lag.toml").values():
                assert variable.scalar and 0 <= variable.reference < 2**32

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        return (change.changed_text if r.random() < 0.7 else change.changed_bytes)(r, data, others)

    return Target("fmu", seeds, _refusing(ConfigError, what), changed, 0.03, 10_000)


def almanac(folder: Path) -> Target:
    """A YUMA almanac, and the sky that a receiver sees with it along a way."""
    from sync.errors import ConfigError
    from tandem.estimation.satellites import Sky, along, read_yuma

    boxes = np.array([[5.0, -20.0, 15.0, 20.0, 12.0]])

    def what(data: bytes) -> None:
        orbits = read_yuma(_written(folder / "almanac.yuma", data))
        count, spread = along(Sky(orbits, 4e4, 0.75, 0.1, 0.17, boxes), np.array([0.0, 60.0]), np.zeros((2, 3)))
        assert (count >= 0).all() and not np.isnan(spread).any()

    seeds = [_almanac(8), _almanac(5, unhealthy=2)]
    return Target("almanac", seeds, _refusing(ConfigError, what), change.changed_text, 0.03, 10_000)


def _almanac(count: int, unhealthy: int = 0) -> bytes:
    lines = []
    for n in range(1, count + 1):
        lines += [
            f"******** Week 300 almanac for PRN-{n:02d} ********", f"ID:                         {n:02d}",
            f"Health:                     {'063' if n <= unhealthy - 1 else '000'}",
            f"Eccentricity:               {0.001 * n:.10E}", "Time of Applicability(s):  405504.0000",
            "Orbital Inclination(rad):   0.9598", "Rate of Right Ascen(r/s):  -0.8E-008",
            "SQRT(A)  (m 1/2):           5153.636", f"Right Ascen at Week(rad):   {0.785 * n:.10E}",
            "Argument of Perigee(rad):   0.5", f"Mean Anom(rad):             {1.3 * n % 6.28:.10E}",
            "Af0(s):                     0.0", "week:                        300", "",
        ]  # fmt: skip
    return "\n".join(lines).encode()


def keys(folder: Path) -> Target:
    from sync.errors import ConfigError
    from sync.transport.keys import make_keys, read_keys

    place = folder / "keys"
    for name in ("daq", "sim"):
        make_keys(place, name)
    names = ["daq.key", "daq.key_secret", "sim.key"]
    whole = [(place / name).read_bytes() for name in names]
    seeds = [_PART.join(whole)]

    def changed(r: Random, data: bytes, _: list[bytes]) -> bytes:
        parts = data.split(_PART)
        which = r.randrange(3)
        parts[which] = (change.changed_text if r.random() < 0.5 else change.changed_bytes)(r, parts[which], parts)
        return _PART.join(parts)

    def what(data: bytes) -> None:
        for name, content in zip(names, data.split(_PART), strict=False):
            _written(place / name, content)
        read_keys(place, "daq", "sim")

    return Target("keys", seeds, _refusing(ConfigError, what), changed, 0.015, 10_000)


def measurement(folder: Path) -> Target:
    """A measurement of another program, as `tandem import` takes it, up to the writing."""
    from sync.errors import ConfigError
    from tandem.records.exchange.errors import ExchangeError
    from tandem.records.exchange.importer import Options, content_of, open_measurement, summary_of

    quick = "sim.machine=vehicles/buggy_single_track.toml"  # the other one takes its time
    maps = ["steering=SteeringWheelAngle:deg", "throttle=Accelerator:%", "brake=BrakePressure:bar"]
    lines = (ROOT / "docs" / "measurement.csv").read_bytes().splitlines(keepends=True)[:40]
    plain = b"".join(lines)
    seeds = [plain, plain.replace(b",", b";").replace(b".", b","), plain.replace(b",", b"\t")]

    def what(data: bytes) -> None:
        file = _written(folder / "measurement.csv", data)
        for time in ("Time:s", None):
            found = open_measurement(file)
            try:
                options = Options(file, CONFIGS / "drive.toml", maps=maps, time=time, overrides=[quick])
                summary_of(content_of(options, found))
            finally:
                found.close()

    return Target(
        "measurement", seeds, _refusing((ConfigError, ExchangeError), what), change.changed_text, 0.01, 10_000
    )


def _exported(folder: Path, form: str) -> list[bytes]:
    """The small measurement of the docs as another program would have written it, and the same as our own export."""
    from tandem.records.exchange.exporter import export

    saved = _a_run(folder)
    export(saved.parent, form, folder / f"out.{form}")
    found = folder / f"out.{form}"
    return [file.read_bytes() for file in (sorted(found.iterdir()) if found.is_dir() else [found])]


def _imported(folder: Path, form: str, seeds: list[bytes], changed: Change, share: float, least: int) -> Target:
    """A measurement in this format, as `tandem import` takes it, up to the writing."""
    from sync.errors import ConfigError
    from sync.files.limits import DecodedTooLarge
    from tandem.records.exchange.errors import ExchangeError
    from tandem.records.exchange.importer import Options, content_of, open_measurement, summary_of

    quick = "sim.machine=vehicles/buggy_single_track.toml"
    maps = ["steering=SteeringWheelAngle:deg", "throttle=Accelerator:%", "brake=BrakePressure:bar"]
    refusals = (ConfigError, ExchangeError, DecodedTooLarge)

    def what(data: bytes) -> None:
        file = _written(folder / f"measurement.{form}", data)
        found = open_measurement(file)
        try:
            for sheet in found.sheets:  # every column that can be had
                with contextlib.suppress(*refusals):
                    sheet.load(list(sheet.columns))
            mapped = Options(file, CONFIGS / "drive.toml", maps=maps, overrides=[quick])
            summary_of(content_of(mapped if found.passport is None else Options(file, CONFIGS / "drive.toml"), found))
        finally:
            found.close()

    return Target(form, seeds, _refusing(refusals, what), changed, share, least)


def _measured() -> dict[str, np.ndarray]:
    """Columns of the measurement in the docs, with its names."""
    lines = (ROOT / "docs" / "measurement.csv").read_text().splitlines()[:40]
    rows = [line.split(",") for line in lines]
    return {name: np.array([float(row[k]) for row in rows[1:]]) for k, name in enumerate(rows[0])}


def parquet(folder: Path) -> Target:
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = pa.table(_measured())
    seeds = _exported(folder, "parquet")
    for options in ({"compression": "none", "use_dictionary": False}, {"compression": "snappy"}, {"version": "1.0"}):
        out = io.BytesIO()
        pq.write_table(plain, out, **options)
        seeds.append(out.getvalue())

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        return change.changed_ends(r, data, others, int.from_bytes(data[-8:-4], "little") + 8)

    return _imported(folder, "parquet", seeds, changed, 0.01, 10_000)


def mf4(folder: Path) -> Target:
    """As the process that asammdf has to itself reads it."""
    from asammdf import MDF, Signal

    from sync.files.limits import DecodedTooLarge
    from tandem.records.exchange.errors import ExchangeError
    from tandem.records.exchange.mf4_reader import open_file

    columns = _measured()
    time = columns.pop(next(iter(columns)))
    seeds = _exported(folder, "mf4")
    for compression in (0, 2):
        with MDF(version="4.10") as mdf:
            mdf.append([Signal(v, time, name=n.split(" ")[0]) for n, v in columns.items()], common_timebase=True)
            mdf.save(folder / "plain.mf4", overwrite=True, compression=compression)
        seeds.append((folder / "plain.mf4").read_bytes())
    refusals = (ExchangeError, DecodedTooLarge)

    def what(data: bytes) -> None:
        found = open_file(_written(folder / "measurement.mf4", data))
        try:
            for sheet in found.sheets:
                with contextlib.suppress(*refusals):
                    sheet.load(list(sheet.columns))
        finally:
            found.mdf.close()

    return Target("mf4", seeds, _refusing(refusals, what), change.changed_blocks, 0.002, 5_000)


def _opened(
    folder: Path, name: str, seeds: list[bytes], ending: Callable[[bytes], str], dbc: Path | None, count: int
) -> Target:
    """A measurement of some kind by its first bytes: opened, and all of its columns asked for."""
    from sync.errors import ConfigError
    from sync.files.limits import DecodedTooLarge
    from tandem.records.exchange.errors import ExchangeError
    from tandem.records.exchange.importer import open_measurement
    from tandem.records.exchange.tables import BusNames

    refusals = (ConfigError, ExchangeError, DecodedTooLarge)

    def what(data: bytes) -> None:
        found = open_measurement(_written(folder / f"m{ending(data)}", data), lambda: BusNames(dbc))
        try:
            for sheet in found.sheets:
                with contextlib.suppress(*refusals):
                    sheet.load(list(sheet.columns))
        finally:
            found.close()

    return Target(name, seeds, _refusing(refusals, what), change.changed_bytes, 1e-6 * count, count // 50)


def mat(folder: Path) -> Target:
    """In the process that scipy has to itself, which takes its time to start: few."""
    from scipy.io import savemat

    columns = {name.split(" ")[0]: values for name, values in _measured().items()}
    listed = {"name": np.array(list(columns), object), "units": np.array(["s"] * len(columns), object)}
    seeds = []
    for packed in (False, True):
        savemat(
            folder / "seed.mat", {**columns, "run": {"angle": np.arange(9.0)}, "channel": listed}, do_compression=packed
        )
        seeds.append((folder / "seed.mat").read_bytes())
    return _opened(folder, "mat", seeds, lambda _: ".mat", None, 300)


def bus_log(folder: Path) -> Target:
    """Logs of a CAN bus, and what a DBC makes of them."""
    import can

    real = ROOT / "tests" / "data" / "real" / "rav4_can"
    with can.LogReader(real / "rav4_20s.log") as log:
        frames = [message for _, message in zip(range(400), log, strict=False)]
    seeds = []
    for suffix in (".log", ".asc", ".blf", ".trc"):
        with can.Logger(folder / f"seed{suffix}") as out:
            for message in frames:
                out(message)
        seeds.append((folder / f"seed{suffix}").read_bytes())

    def ending(data: bytes) -> str:
        known = {b"LOGG": ".blf", b"date": ".asc", b";$FI": ".trc"}
        return known.get(data[:4], ".log")

    return _opened(folder, "bus_log", seeds, ending, real / "toyota_2017_opendbc.dbc", 2_000)


def bag(folder: Path) -> Target:
    """Bags of ROS: those of one file."""
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    seeds = []
    for kind, name in ((Stores.ROS2_HUMBLE, "one.mcap"), (Stores.ROS1_NOETIC, "one.bag")):
        store = get_typestore(kind)
        Vector: Any = store.types["geometry_msgs/msg/Vector3"]
        two = kind is Stores.ROS2_HUMBLE
        place = folder / name
        writer: Any = Writer(place, version=9, storage_plugin=StoragePlugin.MCAP) if two else Writer1(place)
        with writer as out:
            topic = out.add_connection("/v", Vector.__msgtype__, typestore=store)
            for k in range(20):
                message = Vector(x=0.1 * k, y=0.0, z=1.0)
                serialize = store.serialize_cdr if two else store.serialize_ros1
                out.write(topic, 1_700_000_000_000_000_000 + 10_000_000 * k, serialize(message, Vector.__msgtype__))
        seeds.append(next(place.glob("*.mcap")).read_bytes() if two else place.read_bytes())
    return _opened(folder, "bag", seeds, lambda data: ".bag" if data[:4] == b"#ROS" else ".mcap", None, 2_000)


# ---- records ---------------------------------------------------------------------------------------------------------


def _a_run(folder: Path) -> Path:
    """A short drive made by hand, with commands, replayed and saved: it has every topic a live one has."""
    from sim_service.command_record import LAYOUT, PARAMETER, RESET
    from sync.config.config import load
    from sync.record import CompleteRun, CompleteTopic, write_complete
    from tandem.records.provenance import attachments, start_facts
    from tandem.records.replay import Options, replay_run
    from tandem.records.replay_save import save

    settings = load(CONFIGS / "drive.toml", ["sim.machine=vehicles/buggy_single_track.toml"])
    words = np.zeros((120, settings.daq.layout.words), np.int64)
    blocks = settings.daq.layout.view(words)
    blocks["seq"], blocks["epoch"] = np.arange(120), 7
    blocks["t_ns"] = 5_000_000_000 + 1_000_000 * np.arange(120)
    blocks["pushed_ns"] = blocks["t_ns"] + 10_000
    blocks["steering"], blocks["throttle"] = np.arange(120) // 3, 100
    orders = np.zeros((3, LAYOUT.words), np.int64)
    commands = LAYOUT.view(orders)
    commands["seq"], commands["epoch"], commands["t_ns"] = np.arange(3), 1, blocks["t_ns"][[10, 40, 80]]
    commands["kind"], commands["index"], commands["value"] = (PARAMETER, RESET, PARAMETER), (2, 0, 3), (2.0, 0.0, 1.1)
    topics = {
        "/daq": CompleteTopic(settings.daq.layout, words, np.arange(120)),
        "/command": CompleteTopic(LAYOUT, orders, np.arange(3)),
    }
    begun = 5_000_000_000
    start = start_facts(settings)
    attached = attachments(settings, CONFIGS / "drive.toml")
    (folder / "a").mkdir()
    write_complete(folder / "a", CompleteRun(start, attached, topics, begun, begun, "made by hand", {"steps": 0}))
    return save(replay_run(folder / "a", Options(mode="ideal")), folder / "b", {})


# long: one step after the other over one description of a record
def _remade(files: list[Path]) -> Change:
    """A sound record of something else: other layouts, other numbers, other positions, and messages to match."""
    from mcap.writer import Writer

    from sync.record import open_run
    from sync.record.heads import START
    from sync.record.ros2msg import ENCODING, MESSAGES, message_bytes, to_definition
    from sync.record.writer import END, PROFILE
    from sync.ring.block import Channel, Layout

    runs = [open_run(file) for file in files]
    kinds = ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")

    def another_layout(r: Random, layout: Layout) -> Layout:
        channels = list(layout.channels)
        for _ in range(r.choice((0, 0, 1, 2))):
            at = r.randrange(len(channels))
            old = channels[at]
            channels[at : at + 1] = r.choice(
                (
                    [],
                    [Channel(r.choice((f"x{at}", "t_s", "ring_position", "step")), old.type, old.unit)],
                    [Channel(old.name, r.choice(kinds), old.unit, old.skew_ns)],
                    [Channel(old.name, old.type, r.choice(("", "deg", "x" * 99)), r.choice((0, -1, -(10**18))))],
                )
            )
            channels = channels or [old]
        return Layout(tuple({channel.name: channel for channel in channels}.values()))

    def changed(r: Random, data: bytes, others: list[bytes]) -> bytes:
        if r.random() < 0.6:
            return change.changed_record(r, data, others)
        run = r.choice(runs)
        out = io.BytesIO()
        writer = Writer(out)
        writer.start(PROFILE, "fuzz")
        writer.add_metadata(START, run.start)
        for name, content in run.attachments.items():
            if r.random() < 0.1 and name.endswith(".json"):
                tree = json.loads(content)
                key = r.choice(list(tree) or [""])  # near the root, where whole tables are
                tree[key] = r.choice(([], {}, None, 1, "x", [1], {"a": {}}, change.a_value(r, 1)))
                writer.add_attachment(0, 0, name, "text/plain", json.dumps(tree).encode())
            else:
                writer.add_attachment(0, 0, name, "text/plain", content)
        for name, topic in run.topics.items():
            if r.random() < 0.1:
                continue
            layout = another_layout(r, topic.layout)
            schema = writer.register_schema("tandem/msg/Any", ENCODING, to_definition(name, layout))
            stated = another_layout(r, layout) if r.random() < 0.05 else layout
            channel = writer.register_channel(name, MESSAGES, schema, {"layout": stated.text})
            words = np.zeros((len(topic), layout.words), np.int64)
            columns = min(layout.words, topic.words.shape[1])
            words[:, :columns] = topic.words[:, :columns]
            for _ in range(r.choice((0, 1, 3, 30))):
                words[r.randrange(len(words)), r.randrange(layout.words)] = r.choice(change.INTEGERS[:31]) & (2**63 - 1)
            if r.random() < 0.1:
                words = words[r.sample(range(len(words)), len(words))]
            if r.random() < 0.1:
                words[:, r.randrange(layout.words)] = r.choice((0, -1, 7, 2**62, -(2**63)))
            positions = topic.positions[: len(words)].tolist()
            for n in range(r.choice((len(words), len(words), len(words), 0, 1, 2))):
                data = (b"\0\1\0\0" + words[n].tobytes())[: message_bytes(layout)]
                if r.random() < 0.001:
                    data = r.choice((data[:-1], data + b"\0", b"\1" + data[1:], b""))
                sequence = r.choice(change.INTEGERS) & 0xFFFFFFFF if r.random() < 0.01 else positions[n]
                writer.add_message(channel, 0, data, 0, sequence)
        if r.random() < 0.9:
            writer.add_metadata(END, {**(run.end or {}), "lost /daq": r.choice(("0", "x", "9" * 30, "٣"))})
        writer.finish()
        return out.getvalue()

    return changed


def record(folder: Path) -> Target:
    """A record, and what info, compare and export do with it."""
    from sync.record import FILE, RunError, open_run
    from tandem.console.present import print_report
    from tandem.records.exchange.errors import ExchangeError
    from tandem.records.exchange.tables import passport_of, tables_of
    from tandem.records.inspect.compare import compare
    from tandem.records.inspect.info import info, report

    saved = _a_run(folder)
    seeds = [(folder / "a" / FILE).read_bytes(), saved.read_bytes()]
    sound = open_run(saved)
    console = Console(file=io.StringIO())
    place = folder / "c"
    place.mkdir()

    def what(data: bytes) -> None:
        found = open_run(_written(place / FILE, data))
        _ = found.whole, found.lacking, found.ended, found.name
        info(found)
        compare(found, sound)
        passport_of(found, tables_of(found))
        if len(data) % 8 == 0:  # takes its time
            print_report(console, report(info(found)))

    changed = _remade([saved, folder / "a" / FILE])

    return Target("record", seeds, _refusing((RunError, ExchangeError), what), changed, 0.016, 10_000)


def replay(folder: Path) -> Target:
    """A record, replayed both ways, saved and exported."""
    from sync.errors import ConfigError
    from sync.record import FILE, RunError
    from tandem.records.exchange.errors import ExchangeError
    from tandem.records.exchange.exporter import export
    from tandem.records.replay import Options, replay_run
    from tandem.records.replay_save import save

    saved = _a_run(folder)
    seeds = [saved.read_bytes(), (folder / "a" / FILE).read_bytes()]
    place = folder / "c"
    place.mkdir()
    refusals = (RunError, ConfigError, ExchangeError)

    def run(data: bytes) -> bool:
        _written(place / FILE, data)
        accepted = False
        for mode in ("exact", "ideal"):
            try:
                done = replay_run(place, Options(mode=mode))
                shutil.rmtree(folder / "saved", ignore_errors=True)
                save(done, folder / "saved", {})
                accepted = True
            except refusals as error:
                _refused(error)
        try:
            export(place, "csv", folder / "csv")
        except refusals as error:
            _refused(error)
        return accepted

    return Target("replay", seeds, run, _remade([saved, folder / "a" / FILE]), 0.008, 5_000)


MAKERS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        wire, clock, commands, config, sources, manoeuvre, tir, tyre_rows, mechanism, relative_mechanism, dbc, road,
        crg, vehicle, relative_vehicle, fmu, almanac, keys, measurement, parquet, mf4, mat, bus_log, bag, record,
        replay,
    )
}  # fmt: skip


def make(makers: list[Maker], folder: Path) -> list[Target]:
    """The targets, each with a folder of its own."""
    targets = []
    for maker in makers:
        place = folder / maker.__name__
        place.mkdir(parents=True)
        targets.append(maker(place))
    return targets
