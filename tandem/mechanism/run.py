"""`tandem mechanism FILE`: a mechanism from a file, simulated, drawn, and its figures printed.

The start closes the mechanism as drawn; if it cannot be closed, every constraint left open is listed with how far it
is off. Where nothing does work on the mechanism, a run whose energy changes by more than `MOST_ENERGY` of what moves
reports it. `write_run` is the one place that fills the run's folder.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sync.clock import now_ns
from sync.config.toml import check, parse_toml
from sync.errors import ConfigError
from sync.record import Run as RecordedRun
from sync.record import RunError
from tandem.mechanism.columns import energies, kinetic_energies
from tandem.mechanism.record import TABLES_FILE, of_run, write_record
from tandem.multibody.description.mechanism_file import Described, describe, read_mechanism, residuals
from tandem.multibody.description.sections import Run
from tandem.multibody.natural.api import (
    AssemblyError,
    Mechanism,
    MechanismError,
    Mode,
    Record,
    Scheme,
    Settings,
    State,
    Undetermined,
    accelerations,
    assemble,
    dissipated,
    equilibrium,
    freedoms,
    linearise,
    locked,
    redundant,
    run,
    velocities,
    working,
)  # fmt: skip
from tandem.multibody.natural.impact_tables import (
    C_IMPACTS,
    C_LOST,
    C_MISSED,
    C_RESTED,
    E_ACROSS_1,
    E_ACROSS_2,
    E_AFTER,
    E_BEFORE,
    E_CONTACT,
    E_GAP,
    E_LOST,
    E_NORMAL,
    E_TIME,
    E_X,
    E_Y,
    E_Z,
)
from tandem.multibody.natural.impacts import Meeting
from tandem.multibody.natural.tables import CONTACT
from tandem.reports.html.chart import Series, curves, paths
from tandem.reports.html.report_page import write_report_page
from tandem.reports.report import Report, Section, Table

MOST_COUNTED = 600  # coordinates; beyond, freedoms are not counted, nor equilibria and modes looked for
MOST_RECORDED = 4000  # states of a run
CHUNKS = 50  # a run is made in so many pieces, between which progress is shown
LISTED = 8  # open constraints in a message
DIVERGED = 3  # exit code
UNCONVERGED = 0.1  # share of the steps of a run
INSTANTS_RENDERED = 6  # besides the start
MOST_LISTED, IMPACTS_SHOWN = 1000, 20  # impacts in report.json, and in a table
OVERLAP = 1e-4  # of the size of a mechanism: how far its surfaces may lie in each other at the start
MOST_ENERGY = 1e-3  # share of what moves by which the energy of a closed run may change without a word
ROUNDING = 1e-10  # share of the energy there is


@dataclass(frozen=True)
class Simulated:
    described: Described
    record: Record
    figures: dict[str, Any]  # with the modes, where they were asked for


def load(path: Path, **chosen: Any) -> tuple[Described, State]:
    """The mechanism of a file at its start; what is chosen (entries of [run]) goes before the file's."""
    return prepare(read_mechanism(path), **chosen)


def recorded_file(
    run: RecordedRun, change: Callable[[Mechanism], Mechanism] = lambda mechanism: mechanism
) -> tuple[Described, State]:
    """The mechanism of a recorded run at its start, made here from the recorded file; `change` adds to it before."""
    where = f"{run.path} (mechanism.toml)"
    if "mechanism.toml" not in run.attachments:
        raise RunError(f"{where}: is missing or damaged; a run of `tandem mechanism` has one")
    data = parse_toml(run.attachments["mechanism.toml"], where)
    described = describe({**data, "run": run.json(TABLES_FILE).get("run", data.get("run", {}))}, where)
    change(described.mechanism)
    return prepare(described)


def prepare(described: Described, **options: Any) -> tuple[Described, State]:
    """A consistent start; whatever is wrong with the mechanism is reported before anything runs."""
    file = described.file
    options_set = {k: v for k, v in options.items() if v is not None}
    before = file.run.model_dump()
    if options_set.get("formulation", before["formulation"]) != before["formulation"]:
        del before["scheme"], before["stabilisation"]  # of the other formulation
    elif "scheme" in options_set:
        del before["stabilisation"]
    chosen = check(Run, before | options_set, described.path, "run")
    described = replace(described, file=file.model_copy(update={"run": chosen}))
    rho = (1.0 - chosen.dissipation) / (1.0 + chosen.dissipation)
    # relative coordinates begin and end as natural ones, which are not stepped then
    scheme = Scheme[chosen.scheme.upper().replace("-", "_")] if chosen.formulation == "natural" else Scheme.I3AL
    settings = Settings(scheme=scheme, rho=rho)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Undetermined)
            state = described.mechanism.compile(h=1e-3 * chosen.step_ms, settings=settings).state()
    except (MechanismError, Undetermined) as error:
        raise ConfigError(f"{described.path}: {error}") from None
    for key, requested in (
        ("start.equilibrium = true", file.start.equilibrium),
        (f"run.modes = {chosen.modes}", chosen.modes),
    ):
        if requested and state.system.n > MOST_COUNTED:
            raise ConfigError(
                f"{described.path}: {key}: is for at most {MOST_COUNTED} coordinates, and there are {state.system.n};"
                " leave it out"
            )
    if chosen.modes and described.mechanism.slips:
        joint = next(iter(described.mechanism.slips)).split(".")[0]
        raise ConfigError(
            f"{described.path}: run.modes = {chosen.modes}: joints.{joint}"
            " holds a velocity and no place, and modes are of places alone; leave modes out"
        )
    try:
        if file.start.equilibrium:
            _rest(described.path, state)
        assemble(state, **described.positions)
        accelerations(velocities(state, **described.velocities))
    except AssemblyError as error:
        raise ConfigError(_open(described, state, error)) from None
    if described.mechanism.impacts:
        name, deep = Meeting(state.system).overlap(state.q)
        if deep > OVERLAP * (described.mechanism.span or 1.0):
            between = " and ".join(described.file.impacts[name]["between"])
            raise ConfigError(
                f"{described.path}: impacts.{name}: at the start {between} lie {deep:.3g} m in each other; draw them"
                " apart"
            )
    return described, state


def _rest(path: str, state: State) -> None:
    """The static equilibrium next to the drawing; inputs are those of the start."""
    assemble(state)  # what cannot be closed is reported by constraint, and not as an equilibrium that is missing
    try:
        equilibrium(state)
    except AssemblyError as error:
        raise ConfigError(f"{path}: start.equilibrium = true: {error}; start as drawn, or draw it nearer") from None


def _open(described: Described, state: State, error: AssemblyError) -> str:
    """Which constraints cannot be met, at the best position found; or which velocities contradict them."""
    left = residuals(described.mechanism, state.q, state.inputs[:, 0])
    wide = {name: value for name, value in left.items() if abs(value) > 1e-9}
    stated = described.positions if _misplaced(described, state) else {} if wide else described.velocities
    if stated:
        table = "position" if stated is described.positions else "velocity"
        keys = ", ".join(f"start.{table}.{name} = {_plain(value)}" for name, value in stated.items())
        return f"{described.path}: {keys}: {error}; give fewer, the rest follows from the constraints"
    if not wide:
        rates = [
            f"joints.{drive} (rate {state.inputs[i.index, 1]:g})"
            for drive in described.mechanism.drives
            for i in described.mechanism.inputs.values()
            if i.index in _inputs_of(described, drive)
        ]
        named = ", ".join(rates or [f"inputs.{name}" for name in described.mechanism.inputs])
        return f"{described.path}: {named}: {error}; at the start their rates must fit each other"
    count = len(left)
    free = described.mechanism.n
    lines = [
        f"{described.path}: the mechanism cannot be closed as drawn: of {count} constraints on {free} coordinates"
        f" {len(wide)} stay open at the nearest position:"
    ]
    lines += [f"{described.path}:   {name} is off by {value:+.3g} m" for name, value in list(wide.items())[:LISTED]]
    if len(wide) > LISTED:
        lines.append(f"{described.path}:   and {len(wide) - LISTED} more")
    return "\n".join(lines)


def _misplaced(described: Described, state: State) -> bool:
    """Whether it closes as drawn, but not where start.position asks for."""
    if not described.positions:
        return False
    off = [np.abs(state[name] - value).max() for name, value in described.positions.items()]
    if max(off) <= 1e-9 and not any(
        abs(v) > 1e-9 for v in residuals(described.mechanism, state.q, state.inputs[:, 0]).values()
    ):
        return False  # it is there
    try:
        assemble(state.system.state())
    except AssemblyError:
        return False
    return True


def _plain(value: np.ndarray) -> str:
    return f"{value[0]:g}" if len(value) == 1 else str(value.tolist())


def _inputs_of(described: Described, drive: str) -> set[int]:
    products = described.mechanism.constraints[drive].residual.products
    return {i for _, a, b in products for form in (a, b) for i in form.inputs}


def simulate(described: Described, state: State, progress: Callable[[float, str], None]) -> Simulated:
    """Runs it; `progress` hears how much is done and a line of figures."""
    chosen = described.file.run
    h, steps = 1e-3 * chosen.step_ms, chosen.steps
    found = natural_modes(state, chosen.modes) if chosen.modes else None
    advance = _stepped(described, state)
    every = max(1, -(-steps // MOST_RECORDED))
    pieces: list[Record] = []
    done, spent = 0, 0
    while done < steps:
        # whole strides, so that the pieces fit together
        size = min(steps - done, max(every, steps // CHUNKS // every * every))
        length = size * h if done + size < steps else chosen.seconds - done * h  # the last step may be shorter
        record, cost_ns = advance(length, h, min(every, size))
        spent += cost_ns
        pieces.append(record)
        done += record.steps
        factor = h * done / max(spent / 1e9, 1e-9)
        progress(done / steps, f"|Φ| {record['phi_error'].max():.1e}, {factor:.0f} times real time")
        if record.steps < size:
            break
    whole = _joined(pieces)
    if whole.finite and state.time > whole.t[-1]:  # the end stands in the record, wherever it falls
        whole = replace(whole, states=np.vstack([whole.states, state.vector]))
    figures = _figures(described, whole, done, spent / 1e9)
    return Simulated(described, whole, figures if found is None else figures | {"modes": found})


def _stepped(described: Described, state: State) -> Callable[[float, float, int], tuple[Record, int]]:
    """What advances the state by seconds in steps of h, every so many kept; and how long the steps took, ns."""
    if described.file.run.formulation == "natural":

        def natural(seconds: float, h: float, every: int) -> tuple[Record, int]:
            then = now_ns()
            return run(state, seconds, h, every=every, strict=False), now_ns() - then

        return natural
    from tandem.multibody.relative.run import Runner  # compiled code that only this formulation needs

    try:
        runner = Runner(state, described.file.run.scheme)
    except MechanismError as error:
        raise ConfigError(f'{described.path}: run.formulation = "relative": {error}') from None

    def relative(seconds: float, h: float, every: int) -> tuple[Record, int]:
        before = runner.steps_ns
        try:
            return runner.run(seconds, h, every=every, strict=False), runner.steps_ns - before
        except MechanismError as error:
            raise ConfigError(f'{described.path}: run.formulation = "relative": {error}') from None

    return relative


def natural_modes(state: State, count: int) -> dict[str, Any]:
    """The lowest modes about the static equilibrium next to a state, which is left as it is."""
    near = state.copy()
    try:
        equilibrium(near)
        about = "the static equilibrium"
    except AssemblyError as error:
        near = state.copy()
        about = f"the start, which is not at rest ({error})"
    moved = float(np.abs(near.q - state.q).max(initial=0.0))
    modes = linearise(accelerations(near)).modes()[:count]
    nodes = {name: node for name, node in near.system.mechanism.nodes.items() if node.columns}
    return {"about": about, "moved": moved, "modes": [_mode(mode, nodes) for mode in modes]}


def _mode(mode: Mode, nodes: dict[str, Any]) -> dict[str, Any]:
    """As numbers by name; the largest component of the shape is 1."""
    largest = mode.shape[int(np.argmax(np.abs(mode.shape)))]
    shape = mode.shape / largest
    return {
        "frequency_hz": mode.frequency_hz,
        "damping_ratio": float(mode.damping_ratio),
        "eigenvalue": [float(mode.eigenvalue.real), float(mode.eigenvalue.imag)],
        "shape": {name: [float(shape[i].real) for i in node.columns] for name, node in nodes.items()},
        "shape_imaginary": {name: [float(shape[i].imag) for i in node.columns] for name, node in nodes.items()},
    }


def _joined(pieces: list[Record]) -> Record:
    states = np.vstack([pieces[0].states[:1], *(p.states[1:] for p in pieces)])
    diagnostics, steps = np.vstack([p.diagnostics for p in pieces]), sum(p.steps for p in pieces)
    return Record(
        pieces[0].system,
        states,
        diagnostics,
        steps,
        all(p.finite for p in pieces),
        sum(p.capped for p in pieces),
        sum(p.error_sum for p in pieces),
        max(p.error_most for p in pieces),
        np.vstack([p.impacts for p in pieces]),
        np.sum([p.counts for p in pieces], axis=0),
    )


def energy_figures(record: Record, chosen: Run) -> dict[str, Any]:
    """What becomes of the energy; where nothing does work on the mechanism, how much of it the steps made or lost."""
    energy, kinetic = energies(record), kinetic_energies(record)
    change, moved = energy - energy[0], float(kinetic.max())
    grown, lost = float(change.max()), float(-change.min())
    by = [*working(record.system.mechanism), *record.system.mechanism.impacts]
    figures = {
        "energy_start": float(energy[0]),
        "energy_change": float(np.abs(change).max()),
        "energy_worked_on_by": by,  # closed if there is nothing
        "energy_moved": moved,  # the largest kinetic energy
        "energy_grown": grown,
        "energy_lost": lost,
        "energy_share": None if by or not record.finite else max(grown, lost) / moved if moved > 0.0 else 0.0,
        "energy_warning": None,
    }
    weights = sum(abs(force) for force in record.system.mechanism.weight.values())
    noise = ROUNDING * (float(np.abs(energy - kinetic).max()) + weights * record.system.mechanism.span)
    lost = 0.0 if chosen.dissipation > 0.0 else lost  # asked for
    if not by and record.finite and max(grown, lost) > max(MOST_ENERGY * moved, noise):
        word, size = ("grew", grown) if grown >= lost else ("fell", lost)
        better = {"natural": "projection", "relative": "rodas4"}[chosen.formulation]
        other = "" if chosen.scheme == better else f', or scheme = "{better}"'
        figures["energy_warning"] = (
            f"energy {word} by {size:.3g} J, {100 * size / moved:.2g} % of the {moved:.3g} J that move, though nothing"
            f" does work on the mechanism: steps of {chosen.step_ms:g} ms are too long; try shorter ones{other}"
        )
    return figures


def _figures(described: Described, record: Record, done: int, spent: float) -> dict[str, Any]:
    chosen = described.file.run
    simulated = min(1e-3 * chosen.step_ms * done, chosen.seconds)
    # at the start: far into a run a mechanism may lie stretched, where freedoms come and go
    start = record.state(0)
    counted = record.system.n <= MOST_COUNTED
    return {
        "name": described.file.name,
        "file": described.path,
        "formulation": chosen.formulation,
        "scheme": chosen.scheme,
        "coordinates": record.system.n,
        "constraints": record.system.m,
        "freedoms": int(freedoms(start).shape[1]) if counted else None,
        "redundant": redundant(start) if counted else None,
        "locked": locked(start),
        "step_ms": chosen.step_ms,
        "seconds": simulated,
        "steps": done,
        "phi_max": float(record["phi_error"].max()),
        "phid_max": float(record["phid_error"].max()),
        **energy_figures(record, chosen),
        # what contacts lose is counted by steps of natural coordinates
        "lost_to_contact": sum(
            dissipated(record.state(-1), e.name) for e in record.system.elements if e.kind == CONTACT
        )
        if chosen.formulation == "natural"
        else None,
        **impact_figures(record),
        "iterations": float(record["iterations"].mean()),
        "iterations_max": int(record["iterations"].max()),
        "capped_steps": record.capped,
        # none of a scheme without an estimate; halving takes what it estimates away
        "drift": record.drift if chosen.scheme == "i3al" else None,
        "step_error_max": record.error_most if chosen.scheme.startswith(("i3al", "ro")) else None,
        "us_per_step": 1e6 * spent / max(done, 1),
        "real_time_factor": simulated / spent if spent > 0 else 0.0,
        "ended": record.ended,
    }


def impact_figures(record: Record) -> dict[str, Any]:
    """How often surfaces struck each other, what that took, and the first of them."""
    mechanism = record.system.mechanism
    if not mechanism.impacts:
        return {}
    names = Meeting(record.system).names
    rows = [
        {
            "time": row[E_TIME], "impact": names[int(row[E_CONTACT])], "approach": -row[E_BEFORE],
            "after": row[E_AFTER], "impulse": row[E_NORMAL],
            "friction_impulse": float(np.hypot(row[E_ACROSS_1], row[E_ACROSS_2])),
            "lost": row[E_LOST], "gap": row[E_GAP], "at": [row[E_X], row[E_Y], row[E_Z]][: mechanism.dimension],
        }
        for row in record.impacts[:MOST_LISTED]
    ]  # fmt: skip
    counts = record.counts
    return {
        "impacts": int(counts[C_IMPACTS]), "impacts_not_located": int(counts[C_MISSED]), "impact_rows": rows,
        "lost_to_impacts": float(counts[C_LOST]), "lost_at_rest": float(counts[C_RESTED]),
    }  # fmt: skip


IMPACT_HEADS = ("time, s", "impact", "approach, m/s", "after, m/s", "impulse, N s", "friction, N s", "lost, J")


def impact_rows(f: dict[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("time", "impact", "approach", "after", "impulse", "friction_impulse", "lost")
    return [tuple(row[key] for key in keys) for row in f["impact_rows"][:IMPACTS_SHOWN]]


MODE_HEADS = ("mode", "frequency", "damping ratio", "moves most")


def mode_rows(f: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    rows = []
    for k, mode in enumerate(f["modes"]["modes"], 1):
        real, imaginary = mode["eigenvalue"]
        hz = f"{mode['frequency_hz']:.4g} Hz" if imaginary else "falls away" if real > 0 else "creeps, or stays"
        sizes = {}
        for name, values in mode["shape"].items():
            for axis, a, b in zip("xyz", values, mode["shape_imaginary"][name], strict=False):
                sizes[f"{name}.{axis}" if len(values) > 1 else name] = complex(a, b)
        most = sorted(sizes.items(), key=lambda item: -abs(item[1]))[:4]
        moves = ", ".join(f"{name} {value.real:+.2f}" for name, value in most if abs(value) > 0.05)
        rows.append((str(k), hz, f"{mode['damping_ratio']:.3f}" if imaginary else f"{real:.3g} 1/s", moves))
    return rows


def figure_rows(f: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("coordinates, constraints", f"{f['coordinates']}, {f['constraints']}"),
        ("freedoms, redundant constraints", _counted(f)),
        ("steps", f"{f['steps']} of {f['step_ms']:g} ms: {f['seconds']:g} s"),
        ("constraints, at worst", f"|Φ| {f['phi_max']:.1e} m, |dΦ/dt| {f['phid_max']:.1e} m/s"),
        ("energy", _energy(f)),
        *([("lost to contacts", f"{f['lost_to_contact']:.4g} J")] if f["lost_to_contact"] else []),
        *([("impacts", _struck(f))] if "impacts" in f else []),
        (
            "iterations a step" if f["formulation"] == "natural" else "evaluations a step",
            f"{f['iterations']:.2f}, most {f['iterations_max']}, {f['capped_steps']} steps capped",
        ),
        ("error of the steps, estimated", _estimated(f)),
        ("cost", f"{f['us_per_step']:.1f} µs a step: {f['real_time_factor']:.0f} times real time"),
        ("ended", f["ended"]),
    ]


def _energy(f: dict[str, Any]) -> str:
    first = f"{f['energy_start']:.4g} J at the start, "
    if by := f["energy_worked_on_by"]:
        more = f" and {len(by) - LISTED} more" if len(by) > LISTED else ""
        return f"{first}changes by at most {f['energy_change']:.4g} J: {', '.join(by[:LISTED])}{more} work on it"
    return f"{first}then off by at most {f['energy_change']:.2e} J, {f['energy_share'] or 0.0:.1e} of what moves"


def _struck(f: dict[str, Any]) -> str:
    missed = f", {f['impacts_not_located']} not located" if f["impacts_not_located"] else ""
    return f"{f['impacts']}{missed}: {f['lost_to_impacts']:.4g} J lost in them, {f['lost_at_rest']:.4g} J at rest"


def _estimated(f: dict[str, Any]) -> str:
    if f["step_error_max"] is None:
        return "not estimated"
    if f["formulation"] == "relative":
        return f"at most {f['step_error_max']:.1e} a step, of a method of lower order beside it (m, rad)"
    if f["drift"] is None:
        return f"at most {f['step_error_max']:.1e} a step before it is taken away (m, rad)"
    return f"at most {f['step_error_max']:.1e} a step, {f['drift']:.1e} all together (m, rad)"


def _counted(f: dict[str, Any]) -> str:
    if f["freedoms"] is None:
        return "not counted: too many coordinates"
    return f"{f['freedoms']}, {f['redundant']}"


def _sticks(record: Record, first: int, second: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Every body as the line through its points, at the start and at some instants after it."""
    lines = []
    for body in record.system.mechanism.bodies.values():
        points = [record.values(node) for node in body.nodes if getattr(node, "kind", "") == "point"]
        if len(points) > 1:
            lines.append((np.stack([p[:, first] for p in points]), np.stack([p[:, second] for p in points])))
    at = np.unique(np.linspace(0, len(record.states) - 1, 1 + INSTANTS_RENDERED).astype(int))
    return [[(x[:, k], y[:, k]) for x, y in lines] for k in at.tolist()]


def write_run(folder: Path, simulated: Simulated) -> Path:
    """The folder of a run: report.html, report.json, and the record like that of any run."""
    html = write_report_page(folder, report(simulated))
    save_record(folder, simulated)
    return html


def save_record(folder: Path, simulated: Simulated) -> None:
    described = simulated.described
    recorded = of_run(described, simulated.record, simulated.figures)
    write_record(folder, recorded, Path(described.path).read_bytes())


def report(simulated: Simulated) -> Report:
    described, figures = simulated.described, simulated.figures
    file, record = described.file, simulated.record
    title = f"{figures['name']}, {figures['formulation']} coordinates, {figures['scheme']}"
    sections = [Section(title, [Table(("", ""), figure_rows(figures))], key="figures")]
    if figures.get("impact_rows"):
        lead = "Of two surfaces: how fast their gap closed, and opens; impulses along the normal and across it."
        sections.append(Section("Impacts", [Table(IMPACT_HEADS, impact_rows(figures))], lead, key="impacts"))
    if "modes" in figures:
        lead = f"About {figures['modes']['about']}, lowest first; shapes are in report.json."
        sections.append(Section("Natural modes", [Table(MODE_HEADS, mode_rows(figures))], lead, key="modes"))
    sections += _pictures(simulated)
    complaints = ["no freedom is left and no motion is prescribed: nothing can move"] if figures["locked"] else []
    complaints += [figures["energy_warning"]] if figures["energy_warning"] else []
    code = 0
    if figures["ended"] != "finished":
        complaints.append(f"{figures['ended']}; try a smaller step")
        # a few steps in singular positions do no harm; a tenth of all is a run that solved something else
        if not record.finite or record.capped > UNCONVERGED * record.steps:
            code = DIVERGED
    errors = [f"{described.path}: {line}" for line in complaints]
    return Report(file.title or file.name, _headline(simulated), figures, sections, complaints=errors, code=code,
                  stored={"figures": figures})  # fmt: skip


def _headline(simulated: Simulated) -> str:
    figures = simulated.figures
    text = (
        f"{figures['steps']} steps of {figures['step_ms']:g} ms at {figures['real_time_factor']:.0f} times real time;"
        f" constraints kept to {figures['phi_max']:.0e} m"
        + ("." if figures["energy_worked_on_by"] else f", energy to {figures['energy_change']:.1e} J.")
    )
    if figures["energy_warning"]:
        text += f" The {figures['energy_warning']}."
    if figures["ended"] != "finished":
        text = f"The run {figures['ended']}. {text}" if simulated.record.finite else f"The run {figures['ended']}."
    return text


def _pictures(simulated: Simulated) -> list[Section]:
    described, record = simulated.described, simulated.record
    file = described.file
    axes = file.show.plane if file.dimension == 3 else "xy"
    first, second = ("xyz".index(axis) for axis in axes)
    places = {name: record[name] for name in described.shown}
    series = [Series(name, place[:, first], place[:, second]) for name, place in places.items()]
    over_time = [
        curves(
            f"{name}, m",
            [Series("xyz"[axis], record.t, place[:, axis]) for axis in range(file.dimension)],
            height=190,
        )
        for name, place in places.items()
    ]
    steps_s = 1e-3 * file.run.step_ms * np.arange(1, len(record.diagnostics) + 1)
    energy = energies(record)
    quality = [
        curves(
            "constraints left after each step, m and m/s",
            [Series("|Φ|", steps_s, record["phi_error"]), Series("|dΦ/dt|", steps_s, record["phid_error"])],
            logarithmic=True,
        ),
        curves("energy against the start, J", [Series("kinetic + potential", record.t, energy - energy[0])]),
        curves("iterations", [Series("iterations", steps_s, record["iterations"])], height=170),
    ]
    lead = "At true scale; dots are where points begin. The bodies as they start, and fainter at some instants later."
    in_plane = paths(f"{axes[1]} over {axes[0]}, m", series, _sticks(record, first, second))
    return [
        Section("Paths", [in_plane], lead),
        Section("Motion over time", over_time, "Coordinates of the points shown.", key="motion"),
        Section("How well it was solved", quality, "After every step, and energy at the kept instants.", key="quality"),
    ]
