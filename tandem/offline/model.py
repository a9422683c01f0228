"""A machine in one's own hands: stepped, run over arrays, linearised, without processes and without a clock.

It is the very step that the loop and a replay make (sim_service/step_kernel.py calls it too): the same state, inputs
and parameters give the same bits.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sim_service.bounds import RAISED_WORDS
from sim_service.contract.machine import Floats, Machine, Parameter, Quantity, default_inputs
from sim_service.contract.parameters import fault_of
from sim_service.contract.scene import poses
from sim_service.many_steps import MANY, for_many_steps
from sim_service.registry import MachineFiles, configured, gather, is_machine, known_machines, make_machine, recorded
from sync.compile.jit import compiling
from sync.config.config import Config, load
from sync.config.toml import check, read_toml
from sync.errors import ConfigError, Diverged, UnknownName
from sync.record import open_run
from sync.ring.memory import refuse_too_many
from tandem.console.compiled import compile_machine, machine_names, recorded_names
from tandem.console.shipped_configs import CONFIGS, find_config, shipped_file
from tandem.offline.shown import figure, heading, html_table, names
from tandem.offline.table import Table

_SMALL = 6e-6  # of the size of a state or an input: where errors of rounding and of the formula are equal


@dataclass(frozen=True, repr=False)
class Linear:
    """x[k+1] = a x[k] + b u[k], y[k] = c x[k] + d u[k], about one state and one set of inputs; y are the outputs of the
    step that begins with x[k].

    >>> linear = tandem.load_machine("mass_spring").linearise(step_s=0.01)
    >>> linear.a.shape, linear.b.shape, linear.outputs
    ((2, 2), (2, 1), ('position', 'velocity', 'stretch', 'hand_force'))
    """

    a: Floats
    b: Floats
    c: Floats
    d: Floats
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    step_s: float

    def __repr__(self) -> str:
        groups = (("states", self.states), ("inputs", self.inputs), ("outputs", self.outputs))
        sizes = ", ".join(f"{len(group)} {title}" for title, group in groups)
        return "\n".join(
            [f"<tandem.Linear: {sizes}, a step of {1e3 * self.step_s:g} ms>", *(names(*group) for group in groups)]
        )


class Parameters(MutableMapping[str, float]):
    """Parameters by name; a change holds from the next step on, within the limits of the machine.

    >>> mass = tandem.load_machine("mass_spring")
    >>> mass.parameters["stiffness"] = 300.0
    >>> mass.parameters.describe("stiffness").unit
    'N/m'
    >>> mass.parameters["stifness"]
    Traceback (most recent call last):
    sync.errors.UnknownName: stifness: no parameter of mass_spring; did you mean stiffness?
    """

    def __init__(self, machine: Machine, values: Floats):
        self._machine, self._described, self._values = machine, machine.parameters, values
        self._places = {p.name: i for i, p in enumerate(machine.parameters)}

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise UnknownName.among(self._places, name, f"parameter of {self._machine.name}")
        return self._places[name]

    def __getitem__(self, name: str) -> float:
        return float(self._values[self._place(name)])

    def __setitem__(self, name: str, value: float) -> None:
        place = self._place(name)
        value = float(value) if isinstance(value, np.generic) else value
        again = f"load it again: load_machine(…, {{{name!r}: {value!r}}})"
        if fault := fault_of(self._machine, self._places, name, value, False, again):
            raise ConfigError(fault)
        self._values[place] = value

    def __delitem__(self, name: str) -> None:
        raise TypeError("a machine keeps its parameters")

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._described)

    def describe(self, name: str) -> Parameter:
        """Unit, limits, meaning."""
        return self._described[self._place(name)]

    def __repr__(self) -> str:
        rows = [f"  {p.name} = {figure(self[p.name])} {p.unit}" for p in self._described]
        return "\n".join([f"<parameters of {self._machine.name}: {len(self)}>", *rows])

    def _repr_html_(self) -> str:
        rows = [(p.name, self[p.name], p.unit, f"{p.low:g} … {p.high:g}", p.text) for p in self._described]
        return html_table(("parameter", "value", "unit", "limits", "what"), rows)


class Model:
    """One machine and its state. For one thread; `copy` gives another.

    >>> mass = tandem.load_machine("mass_spring", {"damping": 4.0})
    >>> mass
    <tandem.Model mass_spring>
      inputs: handle (m)
      outputs: position (m), velocity (m/s), stretch (m), hand_force (N)
      parameters: mass = 0.5 kg, stiffness = 200 N/m, damping = 4 N s/m
    """

    def __init__(self, machine: Machine, params: Floats):
        self._machine, self._params = machine, params
        self._tables, self._steps = machine.tables, 0  # how many were made
        self.parameters: Parameters = Parameters(machine, params)
        self._state = np.zeros(len(machine.states))
        self._inputs = np.zeros(len(machine.inputs))
        self._work = np.zeros(machine.work_size)
        self._at = {q.name: i for i, q in enumerate(machine.inputs)}
        self._defaults = default_inputs(machine)
        self.reset()

    # ---- what it is

    @property
    def name(self) -> str:
        """Of the machine."""
        return self._machine.name

    @property
    def machine(self) -> Machine:
        """Its description and its step."""
        return self._machine

    @property
    def params(self) -> Floats:
        """A copy of the vector of parameters, as a step takes it."""
        return self._params.copy()

    @property
    def inputs(self) -> tuple[Quantity, ...]:
        """What it is given at every step, with units."""
        return self._machine.inputs

    @property
    def states(self) -> tuple[Quantity, ...]:
        """What it goes on with from step to step."""
        return self._machine.states

    @property
    def outputs(self) -> tuple[Quantity, ...]:
        """What a step tells."""
        return self._machine.outputs

    def __repr__(self) -> str:
        inputs, outputs = ([heading(q.name, q.unit) for q in group] for group in (self.inputs, self.outputs))
        values = zip(self._machine.parameters, self._params.tolist(), strict=False)
        parameters = [f"{p.name} = {figure(value)} {p.unit}" for p, value in values]
        lines = (names("inputs", inputs), names("outputs", outputs), names("parameters", parameters))
        return "\n".join([f"<tandem.Model {self.name}>", *lines])

    def _repr_html_(self) -> str:
        groups = (("input", self.inputs), ("state", self.states), ("output", self.outputs))
        rows = [(kind, q.name, q.unit, q.text) for kind, group in groups for q in group]
        about = html_table(("", "name", "unit", "what"), rows, f"{self.name}")
        return f"{about}{self.parameters._repr_html_()}"

    # ---- where it stands

    @property
    def state(self) -> Floats:
        """A copy; assign one to go there.

        >>> mass = tandem.load_machine("mass_spring")
        >>> there = mass.state
        >>> there[0] = 0.1
        >>> mass.state = there
        """
        return self._state.copy()

    @state.setter
    def state(self, values: ArrayLike) -> None:
        vector = np.asarray(values, np.float64)
        if vector.shape != self._state.shape or not np.isfinite(vector).all():
            raise ConfigError(f"state: {len(self._state)} finite numbers are expected, one for each of `states`")
        self._state[:] = vector
        self._work[:] = 0.0  # a step goes on from zeros just the same

    def reset(self) -> None:
        """As it stands at the start, with the parameters as they are."""
        self._machine.initial(self._state, self._params, self._machine.tables, self._work)

    def copy(self) -> "Model":
        """Another one in the same state."""
        other = Model(self._machine, self._params.copy())
        other._state[:], other._work[:] = self._state, self._work
        return other

    def description(self) -> tuple[Machine, Floats]:
        """The machine, and the present values of its parameters; for code that builds on them."""
        return self._machine, self._params.copy()

    def frames(self) -> dict[str, Floats]:
        """Where its solids are: origin, and the directions ahead, left and up, four rows; {} if it has no looks."""
        scene = self._machine.shown.scene
        if scene is None:
            return {}
        out = poses(scene.frames)
        self._machine.shown.frames(self._state, self._params, out)
        return {solid.name: out[solid.frame].copy() for solid in scene.solids}

    # ---- what it does

    def step(self, inputs: Mapping[str, float] | None = None, step_s: float = 0.005) -> dict[str, float]:
        """On by one step; what is not given is 0, or computed by the machine where that is its way. Returns the
        outputs. Raises Diverged where it left its bounds, and stays where it stood.

        >>> mass = tandem.load_machine("mass_spring")
        >>> round(mass.step({"handle": 0.05}, step_s=0.01)["hand_force"], 2)
        9.81
        """
        self._take(inputs or {})
        self._advance(step_s)
        return dict(zip((q.name for q in self.outputs), self._work.tolist(), strict=False))

    def run(
        self, inputs: Mapping[str, ArrayLike] | None = None, steps: int | None = None, step_s: float = 0.005
    ) -> Table:
        """So many steps; an input is one number for all of them, or an array with one for each. Columns: `t` (s, the
        end of each step), the inputs as they were used, the outputs.

        >>> table = tandem.load_machine("mass_spring").run({"handle": np.linspace(0.0, 0.05, 200)})
        >>> table.rows, round(float(table["position"][-1]), 4)
        (200, 0.0494)
        """
        arrays = {name: np.asarray(value, np.float64) for name, value in (inputs or {}).items()}
        lengths = {name: len(value) for name, value in arrays.items() if value.ndim == 1}
        wrong = [name for name, value in arrays.items() if value.ndim > 1]
        if wrong or len(set(lengths.values()) | ({steps} if steps is not None else set())) > 1:
            shown = ", ".join(f"{name} {arrays[name].shape}" for name in arrays)
            raise ConfigError(f"inputs: a number each, or arrays as long as `steps`; these are {shown}")
        count = steps if steps is not None else next(iter(lengths.values()), None)
        if count is None or count < 0:
            raise ConfigError(f"steps = {count!r}: say how many, or give an array for an input")
        self._take(dict.fromkeys(arrays, 0.0))
        varying = [(self._at[name], value) for name, value in arrays.items()]
        n, m = len(self.inputs), len(self.outputs)
        refuse_too_many("steps", count, 16 * (n + m))  # and once more as columns
        rows = np.zeros((count, n + m))
        for k in range(count):
            self._inputs[:] = self._defaults
            for place, value in varying:
                self._inputs[place] = value[k] if value.ndim else value
            try:
                self._advance(step_s)
            except Diverged as error:
                raise Diverged(f"{error} (step {k} of {count})") from None
            rows[k, :n], rows[k, n:] = self._inputs, self._work[:m]
        quantities = (Quantity("t", "s", "End of the step"), *self.inputs, *self.outputs)
        columns = [step_s * np.arange(1, count + 1), *rows.T.copy()]
        return Table(
            {q.name: column for q, column in zip(quantities, columns, strict=True)},
            {q.name: q.unit for q in quantities},
            {q.name: q.text for q in quantities},
        )

    def linearise(self, inputs: Mapping[str, float] | None = None, step_s: float = 0.005) -> Linear:
        """The step about the present state and these inputs, by central differences of it; the model does not move.

        >>> linear = tandem.load_machine("mass_spring").linearise(step_s=0.01)
        >>> round(float(np.abs(np.linalg.eigvals(linear.a)).max()), 3)
        0.98
        """
        self._take(inputs or {})
        here, work = self._state.copy(), self._work.copy()
        n, p, m = len(here), len(self._defaults), len(self.outputs)
        both = np.zeros((n + m, n + p))
        for j in range(n + p):
            about = here[j] if j < n else self._defaults[j - n]
            if np.isnan(about):
                continue  # the machine computes that input itself
            small = _SMALL * max(abs(about), 1.0)
            ends = []
            for sign in (1.0, -1.0):
                self._state[:], self._work[:], self._inputs[:] = here, work, self._defaults
                if j < n:
                    self._state[j] += sign * small
                else:
                    self._inputs[j - n] += sign * small
                self._advance(step_s)
                ends.append(np.concatenate([self._state, self._work[:m]]))
            both[:, j] = (ends[0] - ends[1]) / (2.0 * small)
        self._state[:], self._work[:] = here, work
        states, inputs_, outputs = (tuple(q.name for q in group) for group in (self.states, self.inputs, self.outputs))
        return Linear(both[:n, :n], both[:n, n:], both[n:, :n], both[n:, n:], states, inputs_, outputs, step_s)

    def _take(self, values: Mapping[str, float]) -> None:
        self._defaults[:] = [np.nan if q.optional else 0.0 for q in self.inputs]
        for name, value in values.items():
            if name not in self._at:
                raise UnknownName.among(self._at, name, f"input of {self.name}")
            self._defaults[self._at[name]] = value
        self._inputs[:] = self._defaults

    def _count(self, steps: int) -> None:
        """Many steps, made or to be made, get straight code."""
        self._steps += steps
        if self._steps - steps < MANY <= self._steps:
            self._tables = for_many_steps(self._machine, self._steps).tables

    def _advance(self, step_s: float) -> None:
        if not 0.0 < step_s < np.inf:
            raise ConfigError(f"step_s = {step_s!r}: must be positive, in seconds")
        before = self._state.copy()
        self._count(1)
        try:
            self._machine.step(self._state, self._inputs, self._params, self._tables, self._work, step_s)
        except Exception:
            self._state[:], self._work[:] = before, 0.0
            raise Diverged(f"{self.name}: its step {RAISED_WORDS}; it stands where it stood before it") from None
        for quantities, values in ((self.states, self._state), (self.outputs, self._work)):
            sound = np.abs(values[: len(quantities)]) <= self._machine.stepping.bound
            if not sound.all():
                first = quantities[int(np.argmin(sound))].name
                value = values[int(np.argmin(sound))]
                self._state[:], self._work[:] = before, 0.0
                raise Diverged(f"{self.name}: {first} became {value:g}; it stands where it stood before this step")


def load_machine(
    machine: str | Path,
    parameters: Mapping[str, float] | None = None,
    files: Mapping[str, str | Path] | None = None,
) -> Model:
    """A machine by its name ("mass_spring"; of a car, the one that tandem ships), by its file
    ("configs/omni/bench.toml"), or as a configuration has it ("configs/wall.toml"), or as a recorded run has it
    ("runs/…"); files are also found among those that tandem ships. `parameters` differ from the file; `files` are
    further ones that the machine reads, as `sim.files` of a configuration names them.

    Raises TandemError that names what is wrong. The first time it compiles, which takes up to a minute.

    >>> car = tandem.load_machine("single_track", {"friction": 0.8})
    >>> on_a_track = tandem.load_machine("vehicles/buggy", files={"road": "roads/demo_track"})
    """
    changed = {name: float(value) for name, value in (parameters or {}).items()}
    with compiling("library"):
        sources, configured_values = machine_files(machine, files=files)
        return Model(*make_machine(sources, {**configured_values, **changed}))


def machine_files(
    machine: str | Path, folder: Path = Path(), files: Mapping[str, str | Path] | None = None
) -> tuple[MachineFiles, dict[str, float]]:
    """What a machine is made from, by its name, its file, a configuration or a recorded run, and the parameters that
    the configuration gives. Files are looked for in `folder` first; `files` go over those of a configuration."""
    provided = {name: found_file(Path(file), folder, data=True) for name, file in (files or {}).items()}
    if isinstance(machine, str) and is_machine(machine):
        compile_machine(machine)
        file = shipped_file(machine)
        return gather(machine if file is None else file, provided), {}
    if (folder / machine).suffix == ".mcap" or (folder / machine).is_dir():
        if provided:
            raise ConfigError(
                f"files: {', '.join(provided)}: {machine} is a record, which has its own; give a configuration"
            )
        run = open_run(folder / machine)
        settings = check(Config, run.json("config.json"), f"{run.path} (config.json)")
        sources = recorded(run.attachments, str(run.path))
        compile_machine(*recorded_names(sources))
        return sources, dict(settings.sim.parameters)
    path = found_file(Path(machine), folder)
    if "machine" in read_toml(path):
        compile_machine(*machine_names(path.name, path.parent))
        return gather(path, provided), {}
    config = load(path)
    if provided:
        over = {**config.sim.files, **{name: str(file.absolute()) for name, file in provided.items()}}
        config = config.model_copy(update={"sim": config.sim.model_copy(update={"files": over})})
    compile_machine(*machine_names(config.sim.machine, path.parent))
    return configured(config, path.parent), dict(config.sim.parameters)


def found_file(path: Path, first: Path = Path(), data: bool = False) -> Path:
    """As it is, from this folder, or among the shipped ones, with or without its suffix; `data`: of a machine, which
    is no machine itself."""
    try:
        found = next((p for p in (first / path, first / f"{path}.toml") if p.is_file()), None) or find_config(path)
    except ConfigError:
        found = path
    if found.is_file():
        return found
    if data:
        raise ConfigError(f"{path}: no such file, here or in {CONFIGS}")
    raise UnknownName.among(known_machines(), path, f"file, here or in {CONFIGS}, and no machine")
