"""Commands: obeyed between two steps, refused as a whole where one is wrong, and again in a replay."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_service import step_record
from sim_service.command_record import LAYOUT
from sim_service.commands import CommandClient, CommandServer, NoSimulator, understood
from sim_service.contract.machine import Machine
from sim_service.replay import Plan, as_recorded, obeyed_as_recorded, obeyed_by_time, replay
from sync.clock import now_ns, sleep_until
from sync.ring.ring import RingReader, RingWriter, newest
from sync.ring.streams import COMMAND
from tests.examples import few
from tests.sim_service.conftest import World
from tests.sim_service.test_replay import afresh, assert_same, record
from tests.sync.actors import PATIENCE_S

BLOCKS = int(COMMAND.blocks)


class Commanded:
    """A world whose loop listens, and a client that talks to it."""

    def __init__(self, *overrides: str, changed: Callable[[Machine], Machine] = lambda machine: machine) -> None:
        self.world = World(*overrides, changed=changed)
        simulation, config = self.world.simulation, self.world.config
        self.ring = RingWriter(config.ring("command"), LAYOUT, BLOCKS)
        simulation.listen(self.ring.words)
        self.said: list[str] = []
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.server = CommandServer(
            self.context, config.command_endpoint, self.ring, simulation.model, simulation.params,
            lambda: int(simulation.control[step_record.OBEYED]), self.said.append, simulation.shape_rows,
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        self.client = CommandClient(config, PATIENCE_S)

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


def wait_until(done: Callable[[], bool]) -> None:
    end = now_ns() + PATIENCE_S * 10**9
    while not done():
        assert now_ns() < end
        sleep_until(now_ns() + 1_000_000)


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
    world.ask(step_record.NOW)
    steps = world.join()
    obeyed = steps["commands"]
    assert obeyed[0] == 0 and obeyed[-1] == 1 and (np.diff(obeyed) >= 0).all()
    wait_until(lambda: bool(commanded.said))  # once it has come to rest
    assert commanded.said[0].startswith("mass = ")


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
    answers = [commanded.client.ask({"mass": 600.0 + n * 0.01}) for n in range(BLOCKS // 2 + 10)]
    assert answers[0]["ok"] and not answers[-1]["ok"] and "not been obeyed" in answers[-1]["error"]
    assert commanded.ring.head == BLOCKS // 2


plain = st.none() | st.booleans() | st.floats() | st.text(max_size=8)
nested = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def test_whatever_comes_is_answered_and_nothing_is_obeyed(commanded: Commanded) -> None:
    """A bad request never ends the thread of the server."""

    @settings(max_examples=few(60), deadline=None)
    @given(st.binary(max_size=200) | nested.map(msgpack.packb) | nested.map(lambda v: msgpack.packb({"set": v})))
    def asked(data: bytes) -> None:
        socket.send(data)
        answer = msgpack.unpackb(socket.recv())
        assert answer["ok"] == (understood([data]) is not None and not answer["error"])
        assert commanded.ring.head == 0

    with commanded.context.socket(zmq.REQ) as socket:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.RCVTIMEO, int(1000 * PATIENCE_S))
        socket.connect(commanded.world.config.command_endpoint)
        asked()
    assert commanded.client.ask()["ok"]


def test_whoever_else_answers_is_told_from_a_simulator() -> None:
    other = World()
    somebody: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = somebody.socket(zmq.REP)
    socket.bind(other.config.command_endpoint)
    client = CommandClient(other.config, PATIENCE_S)
    try:
        for answer in (b"", b"\xc1", b"\x80", b"\xa4nobo", b"\x81\x01\x02", bytes(2000)):
            answering = threading.Thread(target=lambda said=answer: (socket.recv(), socket.send(said)))
            answering.start()
            with pytest.raises(NoSimulator, match="is no simulator of tandem"):
                client.ask()
            answering.join()
    finally:
        client.close()
        somebody.destroy(0)
        other.config.socket("command").unlink(missing_ok=True)
        other.close()


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


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"pause": 1}, "pause = 1: must be true or false"),
        ({"steps": 0}, "steps = 0: must be a whole number"),
        ({"steps": 1.5}, "steps = 1.5"),
        ({"slow": 0.5}, "slow = 0.5: must be from 1 to 1000"),
        ({"reset": False}, "reset = False: must be true"),
        ({"fly": True}, "expected a map"),
        ({"pause": True, "slow": "much"}, "slow = 'much'"),
    ],
)
def test_so_is_what_else_is_wrong(commanded: Commanded, others: dict[str, Any], why: str) -> None:
    answer = commanded.client.ask(**others)
    assert not answer["ok"] and why in answer["error"] and not answer["paused"]
    assert commanded.ring.head == 0


def push_until(world: World, steps: int) -> None:
    """A block a millisecond: the wheel turns on and on."""
    end = world.now + 20_000_000_000
    while world.results.head < steps:
        assert world.now < end
        world.push(throttle=200, steering=int(world.daq.head))
        world.let_pass(1_000_000)


def pass_until(world: World, done: Callable[[], bool]) -> None:
    end = world.now + 20_000_000_000
    while not done():
        assert world.now < end
        world.let_pass(1_000_000)


def test_a_pause_is_a_pause_and_single_steps_are_single(commanded: Commanded) -> None:
    world, client = commanded.world, commanded.client
    world.start()
    push_until(world, 10)
    assert client.ask(pause=True)["paused"]
    pass_until(world, lambda: world.count(step_record.PAUSES) > 3)
    stood = world.results.head
    assert client.ask(steps=3)["paused"]
    pass_until(world, lambda: world.results.head == stood + 3)
    paused = world.count(step_record.PAUSES)
    pass_until(world, lambda: world.count(step_record.PAUSES) > paused + 5)
    assert world.results.head == stood + 3
    assert not client.ask(pause=False)["paused"]
    push_until(world, stood + 10)
    world.ask(step_record.NOW)
    steps = world.join()
    resumed = np.flatnonzero(steps["status"] & step_record.RESTARTED)
    assert resumed.tolist() == [stood, stood + 3]
    assert (np.diff(steps["step"]) == 1).all()


def test_slow_motion_is_as_slow_as_asked_and_reset_stands_where_it_began(commanded: Commanded) -> None:
    world, client = commanded.world, commanded.client
    world.start()
    push_until(world, 20)
    assert client.ask(slow=8)["slow"] == 8.0
    pass_until(world, lambda: bool(world.results.newest()["status"] & step_record.SLOWED))  # type: ignore[index]
    slowed = world.results.head
    push_until(world, slowed + 6)
    client.ask(slow=1)
    client.ask(reset=True)
    push_until(world, slowed + 20)
    world.ask(step_record.NOW)
    steps = world.join()
    slow = np.flatnonzero(steps["status"] & step_record.SLOWED)
    assert (np.diff(steps["t_ns"])[slow[:-1]] == 8 * world.h_ns).all()
    again = int(np.flatnonzero(steps["status"] & step_record.RESTARTED)[-1])
    # the first step after the reset moves as far as the first of all
    assert abs(steps["x"][again]) <= abs(steps["x"][again - 1]) and abs(steps["vx"][again]) < 0.1


def test_the_state_after_every_step_can_be_seen(commanded: Commanded) -> None:
    world = commanded.world
    world.push()
    world.run(5)
    layout = world.simulation.state_layout
    block = np.zeros(layout.words, np.int64)
    assert newest(world.simulation.states, block) == 4
    assert (layout.view(block[None, :])[0].tolist()[6:] == world.simulation.state).all()


def test_a_replay_obeys_before_the_same_steps(commanded: Commanded) -> None:
    world, client = commanded.world, commanded.client
    world.start()
    for upto, asked in (
        (20, {"values": {"mass": 900.0}}),
        (30, {"values": {"cornering_front": 8.0, "friction": 0.5}}),
        (40, {"steps": 2}),
        (42, {"reset": True}),
        (42, {"values": {"mass": 700.0}, "pause": False}),
        (60, {"slow": 3}),
        (70, {"slow": 1}),
    ):
        push_until(world, upto)
        assert client.ask(**asked)["ok"]  # type: ignore[arg-type]
    push_until(world, 90)
    world.ask(step_record.NOW)
    steps = world.join()
    found = record(world, steps)
    told = RingReader(world.config.ring("command"), LAYOUT)
    commands, _, _ = told.since(0, 100)
    told.close()
    assert len(commands) == 9
    plan = as_recorded(steps, found.blocks, found.words, np.zeros(len(found.blocks), np.int64))
    assert len(plan) == len(steps)
    plan.commands = np.ascontiguousarray(commands).view(np.int64).reshape(len(commands), LAYOUT.words)
    plan.obeyed = obeyed_as_recorded(steps, commands)
    assert plan.obeyed[-1, 1] == len(commands)
    assert_same(found, replay(afresh(world), plan))
    # and without the commands it is another run
    deaf = replay(afresh(world), Plan(plan.blocks, plan.which, plan.floor, plan.flags, plan.ages))
    assert (deaf.view(np.int64) != found.columns()).any()


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
