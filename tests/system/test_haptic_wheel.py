"""The haptic steering wheel at every device it can have, as far as a machine without one can go.

National Instruments: tests/system/test_effort_watchdog.py, by its double on
the wire. Here a game wheel (SDL's virtual joystick, and a double of its motor) and the page, each sampled by the real
DAQ service in a thread, for both live in this process, with a real simulator beside it.
"""

import signal

import msgpack
import numpy as np
import pytest
import zmq

from daq_service.devices import gamepad, open_device
from daq_service.devices import sdl as joysticks
from sim_service.checked import effort_fault
from sim_service.registry import configured_machine
from sync.config.config import load
from sync.errors import ConfigError
from sync.ring.follower import RingFollower
from sync.ring.ring import RingReader
from tandem.view.instruments import tiles
from tests.daq_service.devices.test_gamepad_device import Haptics
from tests.daq_service.virtual_wheel import BRAKE, HIGHEST, LOWEST, STEERING, THROTTLE, VirtualWheel
from tests.examples import thorough
from tests.system.conftest import PATIENCE_S, ROOT, until
from tests.system.sampling import Start, sampling, simulator

CONFIGS = ROOT / "configs"
WHEEL, NI, PORT = (f"fragments/{name}.toml" for name in ("haptic_wheel", "haptic_ni", "port_model"))
SWERVE, LIMIT = "sim.machine=vehicles/swerve.toml", "sim.parameters.feel_limit=20.0"


def included(*fragments: str) -> str:
    return f"include={list(fragments)!r}"


def test_every_device_of_the_wheel_has_a_configuration_that_is_right() -> None:
    machine = None
    for file, *settings in (
        ("haptic_wheel",), ("haptic_wheel", included(PORT)), ("gamepad", included(WHEEL)), ("onboard", included(WHEEL)),
        ("onboard", included(WHEEL, NI)), ("page", SWERVE),
    ):  # fmt: skip
        path = CONFIGS / f"{file}.toml"
        config = load(path, settings)
        assert config.sim.machine == "vehicles/swerve.toml"
        machine = machine or configured_machine(config, path.parent)[0]  # the same in all
        assert not effort_fault(config, machine, str(path))
        effort = getattr(open_device(config, path), "effort", None)
        assert (effort is None) == (file == "page") and (effort is None or effort.channel == "felt_torque")
    assert machine is not None
    assert "steering_torque" in {tile.channel for group in tiles(machine) for tile in group}  # the page shows it


def test_a_page_has_no_motor_and_says_so() -> None:
    path = CONFIGS / "page.toml"
    with pytest.raises(ConfigError, match=r"page\.toml: source\.effort"):
        open_device(load(path, [included(WHEEL)]), path)


@pytest.mark.drill
def test_a_game_wheel_drives_the_car_and_is_pushed_back_until_the_simulator_is_killed(
    start: Start, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CONFIGS / "gamepad.toml"
    settings = [included(WHEEL), LIMIT, f"name={name}", "source.device='Virtual wheel'"]
    config = load(file, settings)
    motor, sdl = joysticks.Motor, Haptics()
    monkeypatch.setattr(gamepad, "Motor", lambda _, stick: motor(sdl, stick))
    wheel = VirtualWheel(at={THROTTLE: HIGHEST, BRAKE: HIGHEST})
    sim = simulator(start, file, settings)
    try:
        with sampling(config, file) as report:
            steps = RingReader(config.ring("sim"), timeout_s=PATIENCE_S)
            follower, made = RingFollower(config.ring("effort")), []
            assert sdl.level == 0
            wheel.move({STEERING: LOWEST // 4, THROTTLE: LOWEST})  # a joystick's left, and the pedal down

            def held() -> bool:
                made.extend(follower.batches())
                step = steps.newest()
                return step is not None and step["steering_torque"] > 3.5 and (sdl.level or 0) != 0

            until(held, lambda: f"{sdl.sent[-5:]} {sim.said}")
            step = steps.newest()
            assert step["steering_angle"] > 0.5 * np.pi  # a quarter of the way to the left
            steps.close()
            # to the right, with as much as it may
            until(lambda: sdl.level == -round(0.3 * joysticks.MOST), lambda: str(sdl.sent[-5:]))
            sim.signal(signal.SIGKILL)
            sim.end()
            until(lambda: sdl.level == 0, lambda: str(sdl.sent[-5:]))
            made.extend(follower.batches())
            follower.close()
        efforts = np.concatenate(made)
        passed, moved = 1e-9 * np.diff(efforts["t_ns"]), np.diff(np.abs(efforts["given"]))
        assert np.abs(efforts["given"]).max() == 0.3 and (moved <= 5.0 * passed + 1e-12).all()
        assert max(map(abs, sdl.sent)) == round(0.3 * joysticks.MOST)
        assert sdl.level is None and report[0]["effort"]["zeroed"] >= 1
    finally:
        wheel.close()


@pytest.mark.skipif(not thorough(), reason="a process for what test_by_hand.py has of another machine: make drill")
def test_a_wheel_on_the_page_turns_the_cars_and_its_torque_is_shown(start: Start, name: str) -> None:
    file = CONFIGS / "page.toml"
    settings = [SWERVE, f"name={name}"]
    config = load(file, settings)
    sim = simulator(start, file, settings)
    with sampling(config, file), zmq.Context() as context, context.socket(zmq.PUSH) as hand:
        hand.set(zmq.LINGER, 0)
        steps = RingReader(config.ring("sim"), timeout_s=PATIENCE_S)
        hand.connect(f"ipc://{config.socket('hand')}")
        felt = []
        for angle in (60.0, -60.0):

            def turned(angle: float = angle) -> bool:
                hand.send(msgpack.packb({"steering": angle, "throttle": 0.3, "brake": 0.0}))
                step = steps.newest()
                if step is None or abs(np.degrees(step["steering_angle"]) - angle) > 1.0 or step["vx"] < 3.0:
                    return False
                if abs(step["steering_speed"]) > 1e-3 or abs(step["steering_acceleration"]) > 0.1:
                    return False  # on its way some of the torque is inertia
                felt.append(float(step["steering_torque"]))
                return True

            until(turned, lambda: f"{steps.newest()} {sim.said}")
        steps.close()
        sim.signal(signal.SIGINT)
        assert sim.end() == 0, sim.said
    assert felt[0] > 0.2 and felt[1] < -0.2  # what holds it, in the tile "hand torque"
