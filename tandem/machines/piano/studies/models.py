"""Both models of the action on the same key: where the jack meets the button, where it is off the knuckle, when the
string is struck, over a range of speeds.

The phase model's key gives way under its coupler, so it is behind the measured one; the multibody's key is the measured
one. So the multibody is moved as the phase model's virtual key moves. It has the digest's numbers wherever there is one
(tandem/machines/piano/multibody/as_phases.py), and nothing in it is fitted.
"""

import numpy as np

from tandem.machines.piano import action, geometry
from tandem.machines.piano.multibody.action import HAMMER, JACK, poses
from tandem.machines.piano.multibody.as_phases import REGULATION, digest_tables
from tandem.machines.piano.studies.study import H, Played, Studies, Study, move, play
from tandem.reports.html.chart import Series

RAMPS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08)  # s, over 28 mrad of the measured key: case P6 and between
SLOWER = (0.1, 0.15, 0.3, 1.0)
_START, _SETTLE = 0.1, 0.5  # s
_FROM, _TO = -0.0335, -0.0055  # rad
_EDGE = REGULATION["knuckle_edge"]
_NEARER = 0.013  # m: an edge from which on the round knuckle does not carry the jack any more
_SPRING = next(value for name, _, value, *_ in geometry.PARAMETERS if name == "jack_contact")
_STRIKE_S, _LET_OFF_M, _RELEASE_M = 10e-3, 1e-3, 1e-3


def _phases(ramp: float) -> Played:
    travel = (_TO - _FROM) * geometry.FRONT
    return play("piano_phases", [(0.0, 0.0), (_START, 0.0), (_START + ramp, travel)], _START + ramp + 0.3)


def _multibody(phases: Played, edge: float = _EDGE) -> Played:
    """On the phase model's virtual key, after a rest in which felt settles."""
    rest = round(_SETTLE / H)
    x = (phases.state("key_angle") - geometry.Q1) * geometry.FRONT
    v = phases.state("key_rate") * geometry.FRONT
    x, v = np.concatenate([np.full(rest, x[0]), x]), np.concatenate([np.zeros(rest), v])
    return move("piano_multibody", x, v, digest_tables(), None, **(REGULATION | {"knuckle_edge": edge})).after(rest)


def _jack_place(run: Played) -> np.ndarray:
    """q9 of the phase model, of the multibody's bodies."""
    found = np.zeros(len(run.t))
    for k, q in enumerate(run.states[:, : HAMMER + 1]):
        x, y, angle = poses(np.append(q, 0.0))[JACK]
        found[k] = action.knuckle(q[HAMMER], angle, 0.0, x, y, 0.0, 0.0)[1]
    return found


def _first(run: Played, there: np.ndarray) -> int:
    found = np.flatnonzero(there & (run.t > _START))
    return int(found[0]) if len(found) else -1


def _compare(study: Study, ramp: float, bound: bool) -> None:
    a = _phases(ramp)
    b = _multibody(a)
    travel = (a.state("key_angle") - geometry.Q1) * geometry.FRONT
    toe = travel[_first(a, a.of("toe_gap") <= 0.0)], travel[_first(b, b.of("toe_force") > 0.0)]
    off = travel[_first(a, a.of("jack_place") < _EDGE)], travel[_first(b, _jack_place(b) < _EDGE)]
    struck = [run.strikes[0] if run.strikes else None for run in (a, b)]
    blows = [f"{1e3 * (s[0] - _START):.1f} ms, {s[1]:.2f} m/s" if s else "none" for s in struck]
    holds: list[bool | None] = [None, None, None]
    if bound:
        holds = [
            abs(toe[0] - toe[1]) <= _LET_OFF_M, abs(off[0] - off[1]) <= _RELEASE_M,
            all(struck) and abs(struck[0][0] - struck[1][0]) <= _STRIKE_S,  # type: ignore[index]
        ]  # fmt: skip
    say = ("within 1 mm", "within 1 mm", "within 10 ms") if bound else ("", "", "")
    name = f"ramp of {1e3 * ramp:.0f} ms: "
    study.row(name + "let-off, phases and multibody", f"{1e3 * toe[0]:.2f}, {1e3 * toe[1]:.2f} mm", say[0], holds[0])
    study.row(name + "release", f"{1e3 * off[0]:.2f}, {1e3 * off[1]:.2f} mm", say[1], holds[1])
    study.row(name + "strike", "; ".join(blows), say[2], holds[2])
    if ramp in (RAMPS[0], RAMPS[-1]):
        lines = [run.curve("hammer", label, 4) for run, label in ((a, "phases"), (b, "multibody"))]
        study.pictures.append((f"Hammer, rad, ramp of {1e3 * ramp:.0f} ms", lines, "s"))
        force = [run.curve("pilot_force", label, 4) for run, label in ((a, "phases"), (b, "multibody"))]
        study.pictures.append((f"Force at the capstan, N, ramp of {1e3 * ramp:.0f} ms", force, "s"))


def _fast(study: Study) -> None:
    for ramp in RAMPS:
        _compare(study, ramp, True)


def _slow(study: Study) -> None:
    for ramp in SLOWER:
        _compare(study, ramp, False)


def _edge(study: Study) -> None:
    """Why slow ramps differ: the phase model lets go at the edge, the round knuckle goes on carrying behind it."""
    for ramp in (*RAMPS, *SLOWER):
        a = _phases(ramp)
        b = _multibody(a, _NEARER)
        blows = [f"{1e3 * (r.strikes[0][0] - _START):.1f} ms, {r.strikes[0][1]:.2f} m/s" if r.strikes else "none"
                 for r in (a, b)]  # fmt: skip
        name = f"ramp of {1e3 * ramp:.0f} ms, the multibody's edge at {1e3 * _NEARER:.0f} mm: strike"
        study.row(name, "; ".join(blows), "in both or in neither", bool(a.strikes) == bool(b.strikes))
        if ramp == SLOWER[-1]:
            lines = [_under(a, a.of("jack_place"), np.where(a.of("phase") < 2, _SPRING * a.of("jack_overlap"), 0.0),
                            "phases (its spring), edge at 11 mm")]  # fmt: skip
            for run, edge in ((_multibody(a), _EDGE), (b, _NEARER)):
                label = f"multibody, edge at {1e3 * edge:.0f} mm"
                lines.append(_under(run, _jack_place(run), run.of("head_force"), label))
                at = int(np.argmax((_jack_place(run) < _EDGE) & (run.t > _START)))
                force = f"{run.of('head_force')[at]:.2f} N, the hammer {-1e3 * run.of('hammer')[at]:.0f} mrad below"
                study.row(f"{label}, ramp of 1000 ms: force where the phase model lets go, at 11 mm", force)
            study.pictures.append(("Force of the jack on the knuckle, N, ramp of 1000 ms, over its place", lines, "mm"))


def _under(run: Played, place: np.ndarray, force: np.ndarray, label: str) -> Series:
    """From 14 mm on until the jack is farthest out."""
    first = _first(run, place < 0.014)
    last = first + int(np.argmin(place[first:]))
    return Series(label, 1e3 * place[first:last:4][::-1], force[first:last:4][::-1])


STUDIES: Studies = {
    "models": ("Both models on the same key, the multibody with the digest's numbers", _fast),
    "models-slower": ("The same at the edge of a strike and below, where the knuckle's round edge matters", _slow),
    "models-edge": ("Why slow ramps differ: the jack goes on carrying behind the round knuckle's edge", _edge),
}
