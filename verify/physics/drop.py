"""The buggy dropped from 0.3 m at standstill, at several time steps: do its forces depend on the step?

    python -m verify drop            one line a step: largest forces, steps capped, steps made again (--json)

The hard part is the rebound: wheels that carry only their own weight stick and slip at every step, and two branches of
the tyre's force send an undamped iteration to each other and back. Compare with `--retries 0`, one attempt. Forces at
5 ms must be those at 1 ms within 10 %, and every step converge: else the exit code is 1.
"""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from sim_service.contract.machine import tables
from sim_service.registry import gather, load_machine
from tandem.machines.car.buggy import prescribed, slots
from tandem.machines.car.buggy.build import assemble
from tandem.multibody.natural.tables import ATTEMPTS, RETRIES
from tandem.multibody.natural.tables import P as Part
from verify import CONFIGS
from verify.measure import Row, at_most, equal, figure

VEHICLE = CONFIGS / "vehicles" / "buggy.toml"
HEIGHT = 0.3  # m
SECONDS = 1.5
STEPS_MS = (5.0, 2.0, 1.0)
WHEELS = ("fl", "fr", "rl", "rr")
JUDGED, MOST_APART = ("force_x", "load_front", "load_rear"), 0.1


def drop(step_ms: float, retries: int | None = None) -> dict[str, Any]:
    """Largest forces of the front and rear wheels, and how the steps went."""
    model, params = load_machine(VEHICLE, {"gear_mode": 0.0})
    sources = gather(VEHICLE)
    built = assemble(sources.toml(), sources, {"gear_mode": 0.0})
    state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
    inputs = np.zeros(len(model.inputs))
    inputs[[prescribed.SPEED, prescribed.ANGLE]] = np.nan
    model.initial(state, params, model.tables, work)
    constants = model.tables
    if retries is not None:
        ints = np.array(constants.ints)
        ints[slots.HEAD + built.system.span(Part.OPTION).start + RETRIES] = retries
        constants = tables(ints, constants.floats)
    for node in built.system.mechanism.nodes.values():
        if node.kind == "point" and node.columns:
            state[built.system.span(Part.Q).start + node.columns[2]] += HEIGHT
    names = [q.name for q in model.outputs]
    wanted = [f"{what}_{w}" for what in ("force_x", "load") for w in WHEELS]
    places = [names.index(name) for name in [*wanted, "capped", "iterations", "parts"]]
    diagnostics = len(names) + built.system.span(Part.DIAGNOSTIC).start
    rows, attempts = [], []
    for _ in range(round(1e3 * SECONDS / step_ms)):
        model.step(state, inputs, params, constants, work, 1e-3 * step_ms)
        rows.append(work[places])
        attempts.append(work[diagnostics + ATTEMPTS])
    found = np.array(rows)
    return {
        "step_ms": step_ms,
        "force_x": float(np.abs(found[:, :4]).max()),
        "load_front": float(found[:, 4:6].max()),
        "load_rear": float(found[:, 6:8].max()),
        "capped": int(found[:, 8].sum()),
        "again": int(np.sum(np.array(attempts) > 1)),
        "in_parts": int(np.sum(found[:, 10] > 1)),
        "in_halves": int(np.sum(np.array(attempts) > 2)),
        "iterations": float(found[:, 9].mean()),
        "iterations_max": int(found[:, 9].max()),
    }


def drops(*, retries: Literal["0", "1", "2"] | None = None) -> Iterator[Row]:
    found = [drop(step_ms, None if retries is None else int(retries)) for step_ms in STEPS_MS]
    coarse, fine = found[0], found[-1]
    for name in JUDGED:
        off = abs(coarse[name] - fine[name]) / fine[name]
        yield at_most(f"{name} at {coarse['step_ms']:g} ms beside {fine['step_ms']:g} ms, off by", off, MOST_APART)
    for f in found:
        yield equal(f"{f['step_ms']:g} ms: steps capped", f["capped"], 0)
        for name in ("force_x", "load_front", "load_rear", "again", "in_halves", "in_parts", "iterations"):
            yield figure(f"{f['step_ms']:g} ms: {name}", f[name], "N" if name[:4] in ("forc", "load") else "")
