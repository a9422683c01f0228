"""Forces of the buggy at an instant: those of the hook that is stepped, with exact derivatives."""

import numpy as np
import pytest

from sim_service.machines.buggy import forces
from sim_service.machines.buggy.build import _hooks
from sim_service.machines.buggy.description import P
from sim_service.machines.buggy.driveline_parameters import S as ENGINE_STATES
from sim_service.machines.buggy.force_rates import (
    ENGINE,
    FORCE_STATE_BLOCKS,
    OF_WHEEL,
    PORT_BLOCKS,
    PORTS,
    STATE_BLOCKS,
    STATE_PORT_BLOCKS,
    STATES,
    WORK,
    axle_torques,
    body_point,
    dense,
    hook_rates,
    size,
    spring_force,
)
from sim_service.machines.buggy.wheel_rates import CONTACT, braking, contact
from sim_service.machines.car.tyres.transient import STATES as TYRE_STATES
from sim_service.machines.car.tyres.transient import S
from sim_service.multibody.natural.linear import linear
from sim_service.roads import make_road
from tests.complex_step import complex_kernel, jacobian
from tests.examples import thorough
from tests.sim_service.buggy.conftest import CONFIGS, assembled

ROADS = ("flat", "rough_c", "bump", "slope_10_percent")


class Buggy:
    """The hook's ports as drawn, and its numbers; the road may be another."""

    def __init__(self, road="flat", **changed):
        built = assembled()
        car, m = built.car, built.car.mechanism
        ports = []
        for corner in car.corners:
            ports += [*m.where(corner.centre), 0.0, *np.concatenate([m.where(linear(v)) for v in corner.knuckle.basis])]
        for corner in car.corners:
            ports += [*m.where(corner.spring)]
        ports += [0.0, 0.0, *m.where(car.centre), *np.concatenate([m.where(linear(v)) for v in car.chassis.basis])]
        for k in range(2):
            ports += [*np.concatenate([m.where(c.lower) for c in car.corners[2 * k : 2 * k + 2]])]
        self.x = np.array(ports)
        numbers = _hooks(built.tables)
        self.params = np.concatenate([numbers[: forces.ROAD], make_road(CONFIGS / "roads" / f"{road}.toml")])
        self.given = np.concatenate([built.params, np.zeros(forces.GIVEN - len(built.params))])
        for name, value in changed.items():
            self.given[P[name]] = value
        self.given[forces.RATIO] = 8.0
        self.centre = self.x[[forces.CHASSIS, forces.CHASSIS + 1]]
        assert len(self.x) == PORTS

    def rates(self, x, xd, s):
        f, sdot, work = np.zeros(PORTS), np.zeros(STATES), np.zeros(WORK)
        fx, fv, fs = (np.full(size(b), np.nan) for b in (PORT_BLOCKS, PORT_BLOCKS, FORCE_STATE_BLOCKS))
        sx, sv, ss = (np.full(size(b), np.nan) for b in (STATE_PORT_BLOCKS, STATE_PORT_BLOCKS, STATE_BLOCKS))
        hook_rates(0.0, x, xd, np.zeros(9), self.given, self.params, s, f, sdot, fx, fv, fs, sx, sv, ss, work)
        by = np.block(
            [
                [
                    dense(PORT_BLOCKS, fx, (PORTS, PORTS)),
                    dense(PORT_BLOCKS, fv, (PORTS, PORTS)),
                    dense(FORCE_STATE_BLOCKS, fs, (PORTS, STATES)),
                ],
                [
                    dense(STATE_PORT_BLOCKS, sx, (STATES, PORTS)),
                    dense(STATE_PORT_BLOCKS, sv, (STATES, PORTS)),
                    dense(STATE_BLOCKS, ss, (STATES, STATES)),
                ],
            ]
        )
        return np.concatenate([f, sdot]), by

    def stepped(self, x, xd, s):
        """Port forces of the hook for h = 0."""
        states, after = np.zeros(forces.STATES), np.zeros(forces.STATES)
        for w in range(4):
            own = s[OF_WHEEL * w : OF_WHEEL * (w + 1)]
            states[TYRE_STATES * w + S.EX], states[TYRE_STATES * w + S.EY] = own[0], own[1]
            states[TYRE_STATES * w + S.TWIST] = own[2]
            states[forces.BRAKES + 2 * w] = own[3]
        states[forces.ENGINE + ENGINE_STATES.engine_speed] = s[ENGINE]
        f, K, C = np.zeros(PORTS), np.zeros(2000), np.zeros(2000)
        forces.hook(0.0, 0.0, x, xd, np.zeros(9), self.given, self.params, states, after, f, K, C)
        return f

    def state(self, rng, speed, turned=0.02):
        """Near the drawn car: pressed into the road by some millimetres, moving."""
        x = self.x.copy()
        x[[2 + 13 * w for w in range(4)]] -= 0.012
        x += rng.normal(0.0, 2e-3, PORTS)
        for at in [*(13 * w + 4 for w in range(4)), forces.CHASSIS + 3]:
            x[at : at + 9] += turned * rng.normal(0.0, 1.0, 9)
        xd = rng.normal(0.0, 0.1, PORTS)
        for at in (*(13 * w for w in range(4)), forces.CHASSIS):
            xd[at : at + 3] += [speed, 0.03 * speed * rng.normal(), 0.0]
        for w in range(4):
            xd[13 * w + 3] = speed / 0.285 * (1.0 + 0.03 * rng.normal()) + 0.1 * rng.normal()
        xd[64:66] = xd[[13 * 2 + 3, 13 * 3 + 3]]
        s = np.concatenate([(rng.normal(0.0, [1.5e-3, 3e-3, 1e-2, 5e-3], (4, 4))).ravel(), [rng.uniform(80.0, 400.0)]])
        return x, xd, s


CASES = {
    "plain": {},
    "turn slip": {"turn_slip": 1.0},
    "bars and lift": {"front_anti_roll": 2e4, "rear_anti_roll": 1e4, "lift_area": 0.3, "air_pitch_volume": 0.2},
    "limited slip, a hand": {
        **{"differential_lock": 20.0, "differential_preload": 30.0, "differential_bias": 0.4},
        **{"differential_bias_coast": 0.2, "push_body": 2.0, "push_x": 100.0, "push_pitch": 50.0, "push_yaw": 10.0},
    },
}


def _pairs():
    """All roads with all cases, or each of them once."""
    roads, cases = list(ROADS), list(CASES)
    if thorough():
        return [(road, case) for road in roads for case in cases]
    return [(roads[k % len(roads)], cases[k % len(cases)]) for k in range(max(len(roads), len(cases)))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("road", ROADS)
def test_forces_are_those_of_the_hook_that_is_stepped(road, case):
    rng = np.random.default_rng(2)
    buggy = Buggy(road, **CASES[case])
    buggy.given[forces.THROTTLE] = 0.4
    for speed in (0.0, 3.0, 20.0):
        for pressure in (0.0, 300.0):
            buggy.given[forces.PRESSURE : forces.PRESSURE + 4] = pressure
            for _ in range(5):
                x, xd, s = buggy.state(rng, speed)
                found, expected = buggy.rates(x, xd, s)[0][:PORTS], buggy.stepped(x, xd, s)
                if case != "turn slip":  # whose damping the step leaves out where the patch gives way
                    assert found == pytest.approx(expected, rel=1e-9, abs=1e-7)
                else:
                    assert found == pytest.approx(expected, rel=0.05, abs=20.0)


@pytest.mark.parametrize("road, case", _pairs())
def test_derivatives_are_those_of_differences(road, case):
    """The blocks as they are put together; their parts are held to the complex step below."""
    rng = np.random.default_rng(4)
    buggy = Buggy(road, **CASES[case])
    buggy.given[forces.THROTTLE] = 0.3
    buggy.given[forces.PRESSURE : forces.PRESSURE + 4] = 40.0
    lengths = np.concatenate([np.full(PORTS, 1e-6), np.full(PORTS, 1e-5), np.full(STATES, 1e-8)])
    lengths[-1] = 1e-4
    for speed in (2.0, 15.0):
        y = np.concatenate(buggy.state(rng, speed))
        _, by = buggy.rates(*np.split(y, [PORTS, 2 * PORTS]))
        assert np.isfinite(by).all()
        for j in range(len(y)):
            far, near = np.zeros((2, PORTS + STATES))
            for k in (1.0, 2.0):
                up, down = y.copy(), y.copy()
                up[j] += k * lengths[j]
                down[j] -= k * lengths[j]
                split = [np.split(z, [PORTS, 2 * PORTS]) for z in (up, down)]
                slope = (buggy.rates(*split[0])[0] - buggy.rates(*split[1])[0]) / (2.0 * k * lengths[j])
                near, far = (slope, far) if k == 1.0 else (near, slope)
            expected = (4.0 * near - far) / 3.0
            assert by[:, j] == pytest.approx(expected, abs=2e-4 * (1.0 + np.abs(expected).max())), j


def close(found, expected, x, tolerance=1e-12):
    """Against what changes of each variable by its own size do to a result."""
    scale = np.maximum(np.abs(x), 1e-3)
    reach = np.maximum(np.abs(expected) @ scale, 1e-9)[:, None]
    return (np.abs(found - expected) * scale <= tolerance * reach).all()


def test_contact_is_exact_to_the_complex_step():
    rng = np.random.default_rng(5)
    plain = complex_kernel(contact)
    for road in (*ROADS, "mu_split"):
        buggy = Buggy(road)
        p = buggy.params[forces.TYRES : forces.TYRES + forces._TYRE]
        data = buggy.params[forces.ROAD :]
        frame = forces.FRAMES
        axle = buggy.params[frame + 9 : frame + 12]
        for speed in (1.0, 15.0):
            x, xd, s = buggy.state(rng, speed)
            a, b = (axle @ v[4:13].reshape(3, 3) for v in (x, xd))
            variables = np.array([*x[:3], *a, *xd[:3], *b, xd[3], s[0], s[1], 0.0, s[2]])
            for turning, n in ((0.0, 16), (1.0, 17)):
                buggy.given[P.turn_slip] = turning
                _, expected = jacobian(
                    lambda z, data=data, p=p, t=turning: plain(data, p, 1.0, 1.0, t > 0.5, *z), variables
                )
                _, by = buggy.rates(x, xd, s)
                # by centre and its velocity the ports are the variables themselves; so are deflections
                rows, columns = [0, 1, 2], [0, 1, 2, PORTS, PORTS + 1, PORTS + 2, 2 * PORTS, 2 * PORTS + 1]
                which = [CONTACT.CX, CONTACT.CY, CONTACT.CZ, CONTACT.VX, CONTACT.VY, CONTACT.VZ, CONTACT.EX, CONTACT.EY]
                assert close(by[rows][:, columns], expected[rows][:, which], variables[which]), (road, speed, n)
                # by the axle through each of the knuckle's vectors
                for k in range(3):
                    ports = [4 + 3 * k, 5 + 3 * k, 6 + 3 * k]
                    part = axle[k] * expected[rows][:, [CONTACT.AX, CONTACT.AY, CONTACT.AZ]]
                    assert close(by[rows][:, ports], part, np.ones(3), 1e-11)


def test_a_brake_holds_slips_and_springs_back():
    built = Buggy()
    p = built.given[forces.BRAKE_PARAMETERS :]
    limit = 500.0
    torque, rate = braking(p, limit, 0.0, 0.9 * limit / 3e4)
    assert torque == -0.9 * limit and rate == 0.0
    torque, rate = braking(p, limit, 30.0, 0.0)
    assert torque == -limit and rate == 0.0  # a fast wheel winds nothing up
    d, h, w = 0.0, 1e-5, 2.0
    for _ in range(10000):
        torque, rate = braking(p, limit, w, d)
        d += h * rate
    assert torque == pytest.approx(-limit, rel=1e-4) and d == pytest.approx((limit - 155.0 * w) / 3e4, rel=0.02)
    assert braking(p, limit, -1e-3, d)[1] == -1e-3


def test_parts_are_exact_to_the_complex_step():
    rng = np.random.default_rng(6)
    buggy = Buggy("rough_c")
    drive = buggy.given[forces.DRIVELINE_PARAMETERS :]
    road = buggy.params[forces.ROAD :]
    checks = {
        spring_force: ((2e4, 0.4, 900.0, 2100.0, 1e5, 0.3, 1.0, 0.45, 0.8), [0.1, 0.1, 0.35, 0.1, 0.2, -0.3], 0.05),
        axle_torques: ((drive, 0.4, 0.0, 8.0), [30.0, 31.0, 250.0], 5.0),
        braking: ((buggy.given[forces.BRAKE_PARAMETERS :], 400.0), [0.5, 0.01], 0.3),
        body_point: ((road,), [12.0, 0.4, -0.2, 3.0, 0.2, -0.1], 0.02),
    }
    for kernel, (constants, middle, spread) in checks.items():
        plain = complex_kernel(kernel)
        for _ in range(20):
            x = np.array(middle) * (1.0 + spread * rng.normal(0.0, 1.0, len(middle)))
            values, by = jacobian(lambda z, c=constants, f=plain: f(*c, *z), x)
            h = 1e-6 * np.maximum(np.abs(x), 1e-3)
            for j in range(len(x)):
                up, down = x.copy(), x.copy()
                up[j] += h[j]
                down[j] -= h[j]
                slope = (np.array(kernel(*constants, *up)) - np.array(kernel(*constants, *down))) / (2.0 * h[j])
                assert by[:, j] == pytest.approx(slope, rel=1e-5, abs=1e-5 * (1.0 + np.abs(by).max()))
            assert values == pytest.approx(np.array(kernel(*constants, *x)), rel=1e-12)
