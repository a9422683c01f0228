"""Haptic promises through the real path.

Runs of configs/wall.toml, or configs/haptic_wheel.toml, through shared memory; figures come from their records and
their reports. What is promised stands in the registry, under haptics-*.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sync.config.config import Config, load
from sync.errors import RingError, TandemError
from sync.record import open_run
from sync.ring.follower import RingFollower
from sync.ring.ring import RingReader
from tandem.doctor import passivity as theory
from tandem.live.tune import tune
from verify import ROOT
from verify.measure import Row, at_least, at_most, equal, figure
from verify.physics.haptic_port import WHEEL
from verify.real_runs import options, replayed, reported, run_beside_bare

WALL = ROOT / "configs" / "wall.toml"
DELAYS_MS = (0.5, 1.0, 2.0)  # dead time of the device, beside the loop's own delay
LEVELS, LEVEL_S = np.arange(0.85, 1.26, 0.05), 3.0  # near its onset chatter takes seconds to grow
BIAS, CHATTER = 5.0, 0.35  # N; from peak to peak, as a share of how far that presses the wall in
_STEADY = 1500  # samples, for which the finger is pushed before a kill
_PATIENCE_S = 120.0
FEWEST_PUSHES = 10  # of energy
PUSHES, PUSH_S, PUSH_NM = 10, 5.0, 400.0  # hands off: so often, s apart, N m about the vertical
BEYOND = 8.0  # of limit: times the doctor's


def started(word: str, settings: list[str], *more: str, file: Path = WALL, **keywords: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tandem", word, str(file), *options(settings), *more]
    return subprocess.Popen(command, cwd=ROOT, text=True, stderr=subprocess.DEVNULL, **keywords)


def usual(kind: str) -> list[str]:
    return [f"name=haptics_{kind}_{os.getpid()}", "view.enabled=false", "sim.parameters.stiffness_limit=1e6"]


def until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(RingError, TandemError):
            if found := holds():
                return found
        time.sleep(0.02)
    raise TimeoutError(f"nothing within {_PATIENCE_S:g} s")


def newest(ring: str) -> Any:
    """A record with named fields; None where no writer lives."""
    reader = RingReader(ring)
    try:
        return reader.newest() if reader.writer_alive else None
    finally:
        reader.close()


# ---- onset of chatter ------------------------------------------------------------------------------------------------


def chatter() -> Iterator[Row]:
    device, finger = theory.Port(0.3, 2.0), theory.FINGER
    port, period = theory.together(device, finger), 2e-4
    for dead_ms in DELAYS_MS:
        expected = theory.onset(port, 0.0, period, 1e-3 * dead_ms + 1e-4)
        nudge = "{points=[[0.0, 0.0], [0.2, 0.0], [0.201, 0.0005], [0.4, 0.0005], [0.401, 0.0]], period=0.402}"
        settings = [
            *usual("chatter"), f"source.dead_time_ms={dead_ms}", f"source.hand={{bias={-BIAS}, motion={nudge}}}",
            "source.effort.limit=50.0", "source.saturation=50.0", f"sim.parameters.stiffness={LEVELS[0] * expected}",
        ]  # fmt: skip
        config = load(WALL, settings)
        with tempfile.TemporaryDirectory() as folder:
            seconds = str((len(LEVELS) + 3) * LEVEL_S)
            run = started("run", settings, "--seconds", seconds, "--runs", folder, "--json", stdout=subprocess.PIPE)
            until(partial(_in_contact, config))
            time.sleep(LEVEL_S)
            for level in LEVELS:
                until(partial(tune, config, [f"stiffness={level * expected}"], False))
                time.sleep(LEVEL_S)
            result = reported(run)
            steps = open_run(next(Path(folder).iterdir())).topics["/step"].blocks
        trip = result["effort"]["round_trip_us"]["round_trip"]
        delay = 1e-6 * trip["p50"] + 1e-3 * dead_ms
        predicted = theory.onset(port, 0.0, period, delay)
        found = _first_chatter(steps)
        off = found / predicted - 1.0
        yield at_most(
            f"delay {1e3 * delay:.3f} ms: chatter from {found:.0f} N/m on, {predicted:.0f} predicted, apart",
            100.0 * abs(off), 15.0, "%",
        )  # fmt: skip


def _in_contact(config: Config) -> bool:
    step = newest(config.ring("sim"))
    return step is not None and bool(step["force"] != 0.0)


def _first_chatter(steps: np.ndarray) -> float:
    """Between the last stiffness that was calm and the first that chatters."""
    calm = 0.0
    changes = np.flatnonzero(np.diff(steps["stiffness_used"])) + 1
    for begin, end in zip([0, *changes], [*changes, len(steps)], strict=True):
        stiffness = float(steps["stiffness_used"][begin])
        late = steps["port"][begin + (end - begin) // 2 : end]
        if len(late) < 1000 or stiffness <= calm:
            continue
        # what is quicker than the nudges
        quick = late - np.convolve(late, np.full(501, 1.0 / 501), "same")
        if np.ptp(quick[501:-501]) > CHATTER * BIAS / stiffness:
            return 0.5 * (calm + stiffness) if calm else stiffness
        calm = stiffness
    return np.inf


# ---- energy ----------------------------------------------------------------------------------------------------------


def energy() -> Iterator[Row]:
    """Three runs, each by itself."""
    for _ in range(3):
        yield from _pushes()


def _pushes() -> Iterator[Row]:
    stiffness, speed, depth = 2000.0, 0.05, 0.005
    half = 2 * depth / speed
    way = f"{{points=[[0.0, {depth}], [{half}, {-depth}]], period={2 * half}}}"
    settings = [
        *usual("energy"), f"source.hand={{rigid=true, motion={way}}}", f"sim.parameters.stiffness={stiffness}",
        "source.effort.limit=50.0", "source.saturation=50.0", "source.effort.slew=1e9",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        run = started("run", settings, "--seconds", "12", "--runs", folder, "--json", stdout=subprocess.PIPE)
        reported(run)
        efforts = open_run(next(Path(folder).iterdir())).topics["/effort"].blocks
    stale = 1e-3 * load(WALL, settings).source["effort"]["stale_after_ms"]
    found, age, covered, inside = leak(efforts[efforts["t_ns"] > efforts["t_ns"][0] + 1_000_000_000], stiffness, stale)
    pushes = 0.5 * speed * covered / depth  # down to the depth and back
    yield at_least(f"pushes' worth of undisturbed way, of {0.5 * speed * inside / depth:.1f}", pushes, FEWEST_PUSHES)
    if pushes < FEWEST_PUSHES:
        return
    expected = theory.hold_leak(stiffness, speed, 0.0, depth, age)  # T + 2 delay is twice the mean age
    off = found / pushes / expected - 1.0
    yield at_most(
        f"given out a push {1e3 * found / pushes:.4f} mJ, K v (T + 2 delay) d is {1e3 * expected:.4f} mJ, apart",
        100.0 * abs(off), 5.0, "%",
    )  # fmt: skip


def leak(efforts: np.ndarray, stiffness: float, stale: float) -> tuple[float, float, float, float]:
    """(J given out, mean age of what the efforts were made from in s, s that both are of, s in the wall), of a wall of
    this stiffness (below 0), from sample to sample.

    A spring takes ½ K x² in and gives it back; what the monitor has beside that is given out. To leading order it is
    K v² times the age, at every instant, of the motion that the effort in force was made from: over a push to d and
    back K v (T + 2 delay) d, with T and delay as they were, pauses of the host included. Left out is what that does not
    hold for, by the loop's own record: the time between two samples in which an effort was in force that was not given
    as it was wanted (watchdog, limit, slew), or whose sample is not known or outside the wall, or which got older than
    `stale` (s, of the configuration: v times that is no longer little beside d), or at which the record has a gap or
    another simulator took over.
    """
    t = 1e-9 * (efforts["t_ns"].astype(np.int64) - int(efforts["t_ns"][0]))
    sampled = 1e-9 * (efforts["sampled_ns"].astype(np.int64) - int(efforts["t_ns"][0]))
    known, gap = efforts["sampled_ns"] > 0, np.diff(efforts["seq"].astype(np.int64), append=0) != 1
    wrong = (efforts["given"] != efforts["wanted"]) | ~known | (efforts["given"] == 0.0) | gap
    age, hold = np.where(known, t - sampled, 0.0), np.diff(t)
    wrong |= age + np.append(hold, 0.0) > stale
    wrong |= np.diff(efforts["step_epoch"], append=efforts["step_epoch"][-1]) != 0

    def until(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The integrals, until then, of the age and of what is wrong."""
        at = np.maximum(np.searchsorted(t, s, side="right") - 1, 0)
        begun = s - t[at]
        ages = np.concatenate([[0.0], np.cumsum(hold * (age[:-1] + 0.5 * hold))])
        wrongs = np.concatenate([[0.0], np.cumsum(hold * wrong[:-1])])
        return ages[at] + begun * (age[at] + 0.5 * begun), wrongs[at] + begun * wrong[at]

    newest = np.maximum.accumulate(np.where(known, sampled, -np.inf))
    rows = np.flatnonzero(known & (np.diff(newest, prepend=-np.inf) > 0.0) & (sampled > 0.0))
    x, energy, s = efforts["displacement"][rows], efforts["energy"][rows], sampled[rows]
    ages, wrongs = (np.diff(each) for each in until(s))
    inside = (x[1:] < 0.0) & (x[:-1] < 0.0)
    good = inside & (wrongs < 1e-9)
    found = 0.5 * stiffness * np.diff(x**2) - np.diff(energy)
    passed = np.diff(s)
    covered = float(passed[good].sum())
    return float(found[good].sum()), float(ages[good].sum()) / max(covered, 1e-9), covered, float(passed[inside].sum())


# ---- kills -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(settings: list[str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        device = started("device", settings, stdout=subprocess.DEVNULL)
        run = started("run", settings, "--seconds", "0", "--runs", folder, stdout=subprocess.DEVNULL)
        try:
            yield Path(folder)
        finally:
            for process in (run, device):
                process.send_signal(signal.SIGINT)
                process.wait(_PATIENCE_S)


def kills(*, kills: Annotated[int, "of each of both"] = 20) -> Iterator[Row]:
    count = kills
    settings = [
        *usual("kills"), "source.own_process=true", "source.hand={bias=-3.0}", "source.effort.rise_ms=50.0",
        f"supervision.restarts={2 * count + 2}",
    ]  # fmt: skip
    config = load(WALL, settings)
    promised = {"sim": config.source["effort"]["zero_within_ms"], "daq": config.source.get("watchdog_ms", 20.0)}
    with running(settings):
        for side in ("sim", "daq"):
            times = []
            for _ in range(count):
                pid = until(partial(_pressed, config, side))
                follower = RingFollower(config.ring("device"), from_now=True)
                follower.poll()
                killed = time.monotonic_ns()
                os.kill(pid, signal.SIGKILL)
                time.sleep(2e-3 * promised[side] + 0.1)
                blocks = list(follower.batches())
                follower.close()
                efforts, at = (np.concatenate([b[name] for b in blocks]) for name in ("actuator_given", "t_ns"))
                late = np.flatnonzero((at >= killed) & (at < killed + 2e6 * promised[side]))
                pushed = late[efforts[late] != 0.0]
                times.append(1e-6 * float(at[pushed[-1]] - killed) if len(pushed) else 0.0)
            in_time = sum(ms <= promised[side] for ms in times)
            yield at_most(f"kill -9 of the {side}: zero after, at most", max(times), promised[side], "ms")
            yield equal(f"kill -9 of the {side}: in time", in_time, count)


def _pressed(config: Config, side: str) -> int:
    """The process of that side, while the finger is pushed with its full force."""
    pushed = RingReader(config.ring("device"))
    reader = RingReader(config.ring(side))
    try:
        blocks, _, _ = pushed.since(max(pushed.head - _STEADY, 0), _STEADY)
        steady = len(blocks) == _STEADY and (np.abs(blocks["actuator_given"]) > 2.0).all()
        return reader.writer_pid if steady and reader.writer_alive else 0
    finally:
        reader.close()
        pushed.close()


# ---- the loop --------------------------------------------------------------------------------------------------------


def loop(*, seconds: float = 60.0) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        result, misses, _ = run_beside_bare(WALL, usual("loop"), seconds, folder)
        trip = result["effort"]["round_trip_us"]["round_trip"]
        yield equal(f"blocks lost, of {result['steps']} steps", result["balance"]["lost"], 0)
        yield misses.row
        yield figure("round trip p50", trip["p50"], "us")
        yield at_most("round trip p99", trip["p99"], 300.0, "us")
        yield replayed(folder)


# ---- the doctor's limits ---------------------------------------------------------------------------------------------


def limit() -> Iterator[Row]:
    """The doctor's stiffest wall and largest gain, and far beyond them, under a device that nobody holds: a constant
    force presses on it, and it comes to rest, or does not."""
    from tandem.doctor import haptics
    from tandem.machines.car.doctor import feel

    wall = haptics.measured(load(WALL, usual("limit")), WALL, usual("limit"))
    yield figure("the doctor's delay", 1e6 * wall.delay, "us")
    name = [f"name=haptics_limit_{os.getpid()}", "view.enabled=false"]
    (found, *_), _ = feel.held_down(load(WHEEL, name), WHEEL, name)
    largest = float(found.split("=")[1])
    common = ["source.effort.limit=100.0", "source.saturation=100.0", "source.effort.slew=1e6"]
    for what, file, settings, unit, still, swings in (
        ("wall", WALL, [*usual("limit"), *common, _pressed_by(-1.0), "sim.parameters.stiffness={}"], "port",
         5e-5, 5e-4),
        ("wheel", WHEEL, [*name, *common, _pressed_by(0.3), "sim.parameters.feel_limit=20.0",
                          "sim.parameters.feel={}"], "steering_angle", 5e-3, 5e-2),
    ):  # fmt: skip
        for times in (1.0, BEYOND):
            value = times * (wall.passive if what == "wall" else largest)
            swing = _swings(file, [each.format(value) for each in settings], unit)
            judged, bound = (at_most, still) if times == 1.0 else (at_least, swings)
            title = f"{what} at {times:g} times the doctor's limit ({value:.4g}): swings in the last second by"
            yield judged(title, swing, bound, "m" if what == "wall" else "rad")


def _pressed_by(force: float) -> str:
    return f"source.hand={{{{mass=0.0, damping=0.0, stiffness=0.0, bias={force}}}}}"


def _swings(file: Path, settings: list[str], channel: str) -> float:
    """From peak to peak in the last second of a run, beside what drifts."""
    with tempfile.TemporaryDirectory() as folder:
        run = started(
            "run", settings, "--seconds", "8", "--runs", folder, "--json", file=file, stdout=subprocess.PIPE
        )  # fmt: skip
        reported(run)
        steps = open_run(next(Path(folder).iterdir())).topics["/step"].blocks
    last = steps[channel][steps["t_ns"] > steps["t_ns"][-1] - 1_000_000_000]
    t = np.linspace(-1.0, 1.0, len(last))
    return float(np.ptp(last - np.polyval(np.polyfit(t, last, 2), t)))


# ---- the predicting law ----------------------------------------------------------------------------------------------


def predicting(*, dead_ms: float = 1.0) -> Iterator[Row]:
    """At the limit that is computed for it a wall under the hand that is worst for it comes to rest; twice as stiff it
    does not, also where the delay is the longest that the limit is for. Live, at 5 kHz. Beside it the standard law at
    its onset."""
    from tandem.doctor import haptics
    from tandem.machines.wall.studies import held

    own = [*usual("predicting"), f"source.dead_time_ms={dead_ms}", "sim.parameters.law=4.0"]
    config = load(WALL, own)
    loop = haptics.measured(config, WALL, own)
    wall, found = held.limit_of(config, WALL, loop)
    yield figure("delay, median and p99", f"{1e6 * loop.typical:.0f}, {1e6 * loop.delay:.0f}", "us")
    standard = theory.onset(wall.port, 0.0, wall.period, loop.typical)
    yield figure("the standard law chatters from", standard, "N/m")
    hand = found.worst
    nudge = "{points=[[0.0, 0.0], [0.2, 0.0], [0.201, 0.0005], [0.4, 0.0005], [0.401, 0.0]], period=0.402}"
    common = [
        *own, "source.effort.limit=100.0", "source.saturation=100.0", "source.effort.slew=1e6",
        f"source.hand={{mass={hand.mass}, damping={hand.damping}, stiffness={hand.stiffness}, bias={-BIAS},"
        f" motion={nudge}}}",
        f"sim.parameters.delay={wall.predicted}", f"sim.parameters.port_bias={-BIAS}",
    ]  # fmt: skip
    still = 0.25 * BIAS / found.stiffness
    # the limit is for a longer delay than there usually is: with that one a run at the limit is on the edge, a figure
    longest = dead_ms + 1e3 * (found.delay - loop.typical)
    for times, dead in ((1.0, dead_ms), (2.0, dead_ms), (1.0, longest), (2.0, longest)):
        stiffness = times * found.stiffness
        settings = [*common, f"source.dead_time_ms={dead}", f"sim.parameters.stiffness={stiffness}"]
        swing = 1e6 * _swings(WALL, settings, "port")
        title = f"predicting law at {times:g} times its limit ({stiffness:.0f} N/m): swings in the last second by"
        if dead == longest:
            title = f"the longest delay that it is for: {title}"
        if times == 2.0:
            yield at_least(title, swing, 1e6 * still, "um")
        elif dead == longest:
            yield figure(title, swing, "um")
        else:
            yield at_most(title, swing, 1e6 * still, "um")


# ---- hands off -------------------------------------------------------------------------------------------------------


def hands_off(*, port_model: Annotated[bool, "the car at 5 ms, its port at 5 kHz"] = False) -> Iterator[Row]:
    """Full throttle, a wind from behind, every few seconds a torque about the vertical: how the wheel swings then."""
    settings = [
        *(['include=["fragments/port_model.toml"]'] if port_model else []), f"name=haptics_off_{os.getpid()}",
        "view.enabled=false", "sim.parameters.feel_limit=20.0", "source.hand=false", "source.effort.rise_ms=0.0",
        "source.channels.throttle={wave='constant', offset_counts=420.0}",
    ]  # fmt: skip
    config = load(WHEEL, settings)
    with tempfile.TemporaryDirectory() as folder:
        run = started(
            "run", settings, "--seconds", "60", "--runs", folder, "--json", file=WHEEL, stdout=subprocess.PIPE
        )
        until(partial(tune, config, ["push_x=0.0"], False))
        begins = []
        for k in range(PUSHES):
            if k == 2:
                until(partial(tune, config, ["push_x=700.0"], False))  # it would not reach 150 km/h by itself
            begins.append(time.monotonic_ns())
            until(partial(tune, config, [f"push_yaw={PUSH_NM}"], False))
            time.sleep(0.1)
            until(partial(tune, config, ["push_yaw=0.0"], False))
            time.sleep(PUSH_S)
        result = reported(run)
        steps = open_run(next(Path(folder).iterdir())).topics["/step"].blocks
    t, angle = 1e-9 * (steps["t_ns"].astype(np.int64) - begins[0]), np.degrees(steps["steering_angle"])
    for begun in begins:
        at = 1e-9 * (begun - begins[0])
        early, late = (np.ptp(angle[(t >= at + a) & (t < at + a + 1.5)]) for a in (0.2, PUSH_S - 1.6))
        speed = 3.6 * float(np.interp(at, t, steps["vx"]))
        title = f"{speed:.0f} km/h: swings by {early:.2f} deg, {PUSH_S - 1.8:.1f} s later by"
        yield at_most(title, float(late), 0.5 * float(early), "deg")
    yield at_least("fastest", 3.6 * float(steps["vx"].max()), 150.0, "km/h")
    yield figure("round trip p99", result["effort"]["round_trip_us"]["round_trip"]["p99"], "us")
