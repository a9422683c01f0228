"""Commands: obeyed between two steps, refused as a whole where one is wrong, and again in a replay."""

import threading
from collections.abc import Iterator

import msgpack
import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_service import loop
from sim_service.commands import LAYOUT, RING_BLOCKS, CommandClient, CommandServer, NoSimulator
from sim_service.replay import Plan, as_recorded, obeyed_as_recorded, obeyed_by_time, replay
from sync.ring import RingReader, RingWriter

from .conftest import World
from .test_replay import afresh


class Commanded:
    """A world whose loop listens, and a client that talks to it."""

    def __init__(self) -> None:
        self.world = World()
        simulation, config = self.world.simulation, self.world.config
        self.ring = RingWriter(config.ring("command"), LAYOUT, RING_BLOCKS)
        simulation.listen(self.ring.words)
        self.said: list[str] = []
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.server = CommandServer(
            self.context, config.command_endpoint, self.ring, simulation.model, simulation.params,
            lambda: int(simulation.control[loop.OBEYED]), self.said.append,
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        self.client = CommandClient(config)

    def _serve(self) -> None:
        while not self._stop.is_set():
            self.server.serve()

    def close(self) -> None:
        self.world.close()
        self._stop.set()
        self._thread.join()
        self.client.close()
        self.server.close()
        self.context.destroy(0)
        self.world.config.socket("command").unlink(missing_ok=True)
        self.ring.close()


@pytest.fixture
def commanded() -> Iterator[Commanded]:
    made = Commanded()
    yield made
    made.close()


def test_a_command_takes_effect_before_a_step_that_says_so(commanded: Commanded) -> None:
    world = commanded.world
    place = [p.name for p in world.simulation.model.parameters].index("mass")
    for _ in range(3):
        world.push()
    world.start()
    world.wait_for_steps(3)
    before = commanded.client.ask()
    assert before["ok"] and before["parameters"]["mass"]["value"] == world.simulation.params[place]
    asked = before["parameters"]["mass"]["value"] * 1.1
    assert commanded.client.ask({"mass": asked})["parameters"]["mass"]["value"] == asked
    world.wait_for_steps(int(world.results.head) + 3)
    assert world.simulation.params[place] == asked
    world.ask(loop.NOW)
    steps = world.join()
    obeyed = steps["commands"]
    assert obeyed[0] == 0 and obeyed[-1] == 1 and (np.diff(obeyed) >= 0).all()
    assert commanded.said and commanded.said[0].startswith("mass = ")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"mass": -1.0}, "mass = -1.0: must be from"),
        ({"mass": float("nan")}, "must be from"),
        ({"mass": True}, "must be from"),
        ({"mas": 700.0}, "mas: no parameter"),
        ({"mass": 700.0, "yaw_inertia": 1e9}, "yaw_inertia = "),
    ],
)
def test_what_is_wrong_is_refused_as_a_whole(commanded: Commanded, values: dict[str, float], why: str) -> None:
    answer = commanded.client.ask(values)
    assert not answer["ok"] and why in answer["error"]
    assert commanded.ring.head == 0


def test_a_simulator_that_does_not_obey_is_not_flooded(commanded: Commanded) -> None:
    """No block, no step: commands wait, but not so many that the ring would lose one."""
    answers = [commanded.client.ask({"mass": 600.0 + n * 0.01}) for n in range(RING_BLOCKS // 2 + 10)]
    assert answers[0]["ok"] and not answers[-1]["ok"] and "not been obeyed" in answers[-1]["error"]
    assert commanded.ring.head == RING_BLOCKS // 2


plain = st.none() | st.booleans() | st.floats() | st.text(max_size=8)
nested = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200) | nested.map(msgpack.packb) | nested.map(lambda v: msgpack.packb({"set": v})))
def test_whatever_comes_is_answered_and_nothing_is_obeyed(data: bytes) -> None:
    """The server alone, without its socket: a bad request must never end its thread."""
    server = CommandServer.__new__(CommandServer)
    world = World()
    try:
        ring = RingWriter(world.config.ring("command"), LAYOUT, 16)
        server._ring, server._model = ring, world.simulation.model
        server._places = {p.name: i for i, p in enumerate(world.simulation.model.parameters)}
        server._obeyed = lambda: 0
        error = server._take(data)
        assert ring.head == 0 and (error is None or error)
        ring.close()
    finally:
        world.close()


def test_nobody_there_is_said(commanded: Commanded) -> None:
    other = World()
    client = CommandClient(other.config, timeout_s=0.2)
    try:
        for _ in range(2):  # and may be asked again
            with pytest.raises(NoSimulator, match="no simulator named"):
                client.ask()
    finally:
        client.close()
        other.close()


def test_a_replay_obeys_before_the_same_steps(commanded: Commanded) -> None:
    world = commanded.world
    world.start()
    names = ("mass", "cornering_front", "mass")
    for n in range(60):
        world.push(throttle=200, steering=10 * n)
        world.wait_for_steps(n + 1)
        if n in (20, 30, 40):
            name = names[(n - 20) // 10]
            told = commanded.client.ask()["parameters"]
            assert commanded.client.ask({name: told[name]["value"] * 1.2})["ok"]
    world.ask(loop.NOW)
    steps = world.join()
    reader = RingReader(world.config.ring("daq"))
    words = np.zeros((reader.head, reader.layout.words), np.int64)
    blocks, _, _ = reader.since(0, 1000)
    words[:] = np.ascontiguousarray(blocks).view(np.int64).reshape(words.shape)
    reader.close()
    commands_reader = RingReader(world.config.ring("command"), LAYOUT)
    commands, _, _ = commands_reader.since(0, 100)
    commands_reader.close()
    assert len(commands) == 3
    plan = as_recorded(steps, blocks, words, np.zeros(len(blocks), np.int64))
    assert len(plan) == len(steps)
    plan.commands = np.ascontiguousarray(commands).view(np.int64).reshape(len(commands), LAYOUT.words)
    plan.obeyed = obeyed_as_recorded(steps, commands)
    assert plan.obeyed[-1, 1] == len(commands)
    again = replay(afresh(world), plan)
    model = world.simulation.model
    recorded = np.column_stack([steps[q.name] for q in (*model.inputs, *model.outputs)])
    assert (again.view(np.int64) == recorded.view(np.int64)).all()
    # and without the commands it is another run
    deaf = replay(afresh(world), Plan(plan.blocks, plan.which, plan.floor, plan.flags))
    assert (deaf.view(np.int64) != recorded.view(np.int64)).any()


def test_every_life_has_its_own_commands() -> None:
    steps = np.zeros(7, [("step", "i8"), ("commands", "i8"), ("command_epoch", "i8")])
    steps["step"] = [0, 1, 2, 0, 1, 0, 1]
    steps["command_epoch"] = [5, 5, 5, 6, 6, 8, 8]
    steps["commands"] = [0, 2, 3, 3, 3, 4, 5]  # adopted rings count on; the second life was told nothing
    commands = np.zeros(5, [("seq", "u8"), ("epoch", "u8"), ("t_ns", "i8")])
    commands["epoch"], commands["seq"] = [5, 5, 5, 8, 8], [0, 1, 2, 3, 4]
    obeyed = obeyed_as_recorded(steps, commands)
    assert obeyed.tolist()[:3] == [[0, 0], [0, 2], [2, 3]]
    assert all(a == b for a, b in obeyed.tolist()[3:5])
    assert obeyed.tolist()[5:] == [[3, 4], [4, 5]]
    commands["t_ns"] = [10, 20, 30, 40, 50]
    assert obeyed_by_time(np.array([5, 25, 25, 60]), commands).tolist() == [[0, 0], [0, 2], [2, 2], [2, 5]]
