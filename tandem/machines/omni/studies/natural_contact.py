"""The bench with contact and friction in natural coordinates: its own state, inertia, joints and contact Jacobian.

The same rule as tandem/multibody/contact/stepping.py, in points and vectors q instead of joints:

    q_m = q + h/2 qd, back onto Phi = 0            Phi_q, contact points and their W here
    u' = P (qd + M^-1 (h Q + W^T lam))             P: what Phi_q lets pass, orthogonal in M
    0 <= lam_n _|_ (W u')_n + g_m / h >= 0,        Coulomb's cone across it
    qd' = u' - (1 - P) qd                          Phi_q (qd + qd') = 0: symmetric in time
    q' = q_m + h/2 qd', both back onto Phi = 0, Phi_q qd' = 0

M is constant and there are no velocity terms: what bends the path is Phi_q alone. Of the tree only masses and where it
starts are taken, of the contact the shape of a roller; impulses are found by code of their own.
"""

from math import hypot

import numpy as np

from sync.compile.array_types import read_only
from sync.config.toml import read
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.omni.build import build, checked_wheels
from tandem.machines.omni.description import OmniFile
from tandem.machines.omni.studies.natural_wheel import Poses, natural
from tandem.machines.omni.studies.runs import Values
from tandem.multibody.contact.kinds import MASS, ROLLER
from tandem.multibody.contact.surfaces import track
from tandem.multibody.contact.tree_tables import TreeTables
from tandem.multibody.natural.api import State

_TOLERANCE, _MOST = 1e-13, 2000  # of the impulses, relative; rounds to find them
_NEAR = 1e-3  # m: a roller farther from the floor takes no part


def set_rates(state: State, tree: TreeTables, poses: Poses) -> None:
    """Velocities of all points and vectors, from those of the joints."""
    nodes = state.system.mechanism.nodes
    for k, name in enumerate(tree.names):
        if not tree.numbers[k][MASS]:
            continue
        if name in nodes:
            state.qd[state.system.column(name) :][:3] = poses.speed[k]
        for end in ("axis", "one", "two"):
            if f"{name} {end}" in nodes:
                c = state.system.column(f"{name} {end}")
                state.qd[c : c + 3] = np.cross(poses.omega[k], state.q[c : c + 3])


def friction_impulse(G: np.ndarray, b: np.ndarray, reach: float) -> np.ndarray:
    """x with G x + b = -s x, s >= 0, and s = 0 where |x| < reach: in the axes of G, s by bisection."""
    sizes, axes = np.linalg.eigh(G)
    (p, r), (d, e) = (axes.T @ b).tolist(), sizes.tolist()
    low = high = 0.0
    if hypot(p / d, r / e) > reach:
        high = hypot(p, r) / reach
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (middle, high) if hypot(p / (d + middle), r / (e + middle)) > reach else (low, middle)
    return np.asarray(axes @ np.array([-p / (d + high), -r / (e + high)]))


def find_impulses(G: np.ndarray, b: np.ndarray, friction: float) -> np.ndarray:
    """Contact after contact, its normal impulse, then its friction, until nothing changes."""
    lam = np.zeros(len(b))
    for _ in range(_MOST):
        before = lam.copy()
        for n in range(0, len(b), 3):
            t = slice(n + 1, n + 3)
            lam[n] = max(0.0, lam[n] - float(G[n] @ lam + b[n]) / G[n, n])
            rest = G[t] @ lam + b[t] - G[t, t] @ lam[t]
            lam[t] = friction_impulse(G[t, t], rest, friction * float(lam[n])) if friction * lam[n] > 0.0 else 0.0
        if np.abs(lam - before).max() <= _TOLERANCE * (np.abs(lam).max() + 1e-300):
            break
    return lam


class NaturalRig:
    """A bench without dampers, from joints and their rates in `start`."""

    def __init__(self, name: str, friction: float, start: np.ndarray) -> None:
        path = CONFIGS / "omni" / f"{name}.toml"
        file = read(path, OmniFile)
        wheels = checked_wheels(file, str(path))
        tree = build(file, wheels)[0]
        n = len(tree.links)
        poses = Poses(tree, start[:n], start[n : 2 * n])
        mechanism = natural(tree, poses, {})
        mechanism.constrain("upright", mechanism.named("angle axis")[2])
        self.state = mechanism.compile(h=1e-3).state()
        set_rates(self.state, tree, poses)
        self.friction, self.surface = friction, read_only(np.array(wheels[0].surface()))
        system, size = self.state.system, self.state.system.n
        self.inverse, self.forces = np.linalg.inv(system.mass()), self.state.forces()
        # Phi is quadratic: phi + J q + q T q / 2
        origin = system.state()
        origin.q[:] = 0.0
        self.phi, self.J = origin.phi(), origin.jacobian()
        self.T = np.zeros((*self.J.shape, size))
        for k in range(size):
            origin.q[:] = 0.0
            origin.q[k] = 1.0
            self.T[:, :, k] = origin.jacobian() - self.J
        self.centre = mechanism.named("angle")
        self.axle = mechanism.named("angle axis")
        rollers = [tree.names[link] for link, *_ in tree.contacts]
        forms = [[mechanism.named(name + end) for end in ("", " axis", " one", " two")] for name in rollers]
        self.rollers = [[(form.const, form.jacobian(size)) for form in four] for four in forms]
        self.start = self.state.copy()
        self.inertia = wheels[0].inertia()[0]
        self.slip, self.touching = 0.0, 0  # of the roller that carries most: its speed on the floor, its number

    def close(self) -> np.ndarray:
        """Onto Phi = 0 by the shortest way in M; the projector there."""
        q = self.state.q
        for _ in range(8):
            bent = self.T @ q
            J, phi = self.J + bent, self.phi + (self.J + 0.5 * bent) @ q
            back = np.linalg.solve(J @ self.inverse @ J.T, J @ self.inverse).T
            if np.abs(phi).max() < 1e-14:
                break
            q -= back @ phi
        return np.asarray(np.eye(len(q)) - back @ J)

    def contacts(self) -> tuple[list[np.ndarray], list[float], list[int]]:
        """Jacobian (normal, x, y), gap and number of every roller that may touch within a step."""
        W, gaps, which = [], [], []
        arm, none = np.zeros(3), np.zeros(3)
        for number, roller in enumerate(self.rollers):
            place, *vectors = (const + J @ self.state.q for const, J in roller)
            smooth = track(ROLLER, self.surface, np.ascontiguousarray(vectors[0]), none, none, arm)
            gap = float(place[2] + arm[2])
            if gap > _NEAR or (gap > 0.0 and not smooth):
                continue
            # the point is fixed in the roller: coefficients of its vectors
            shares = np.linalg.solve(np.array(vectors).T, arm)
            J = roller[0][1] + sum(c * own[1] for c, own in zip(shares, roller[1:], strict=True))
            W.append(J[[2, 0, 1]])
            gaps.append(gap)
            which.append(number)
        return W, gaps, which

    def step(self, h: float) -> None:
        state, inverse = self.state, self.inverse
        state.q += 0.5 * h * state.qd
        P = self.close()
        free = P @ (state.qd + h * (inverse @ self.forces))
        W, gaps, which = self.contacts()
        u = free
        if W:
            rows = np.vstack(W)
            X = P @ inverse @ rows.T
            b = rows @ free
            b[::3] += np.array(gaps) / h
            lam = find_impulses(rows @ X, b, self.friction)
            u = free + X @ lam
            most = int(np.argmax(lam[::3]))
            speed = rows @ u
            self.touching, self.slip = which[most] + 1, hypot(speed[3 * most + 1], speed[3 * most + 2])
        state.qd[:] = u - (state.qd - P @ state.qd)
        state.q += 0.5 * h * state.qd
        P = self.close()
        state.qd[:] = P @ state.qd

    def run(self, seconds: float, h: float) -> Values:
        """From the start: what a `Rig` calls by the same names, after every step."""
        self.state = self.start.copy()
        rows, s = [], self.state
        for _ in range(round(seconds / h)):
            self.step(h)
            (x, y, _), (ax, ay, _) = s.value(self.centre), s.value(self.axle)
            rows.append((x, y, np.arctan2(-ax, ay), self.slip, self.touching, self._spin()))
        names = ("x", "y", "yaw", "wheel_slip", "wheel_roller", "roller1_spin_momentum")
        return {"t": h * np.arange(1, len(rows) + 1)} | dict(zip(names, np.array(rows).T, strict=True))

    def _spin(self) -> float:
        """Of roller 1 about its own axis: two vectors across it."""
        _, _, (_, one), (_, two) = self.rollers[0]
        return float(self.inertia * ((one @ self.state.qd) @ (two @ self.state.q)))
