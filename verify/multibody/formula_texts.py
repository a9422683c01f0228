"""Equations of motion as texts: random mechanisms in C, Python and MATLAB, beside each other and natural coordinates.

`in_c`, `in_python` and `in_matlab` run texts of tandem/multibody/code/languages.py as somebody would who has nothing
but these: a compiler, an interpreter with numpy, Octave. Each gives, function by function and for each set of
arguments, the arrays that the function gives.
"""

import ctypes
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sim_service.registry import gather
from tandem.machines.car.buggy.build import assemble
from tandem.multibody.code.languages import LANGUAGES, Formula, written_in
from tandem.multibody.natural.errors import IllConditioned, MechanismError
from tandem.multibody.natural.mechanism import Mechanism
from tandem.multibody.natural.problems import accelerations
from tandem.multibody.relative.formulas import QUANTITIES, formulas
from tandem.multibody.relative.generate import Writer
from tandem.multibody.relative.kinematics import close_loops
from tandem.multibody.relative.spanning import make_tree
from verify.measure import NotHere, Row, at_least, at_most, figure, note

COMPILER = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
OCTAVE = next((found for name in ("octave-cli", "octave") if (found := shutil.which(name))), None)
STATES = 10
APART = 1e-9
TOGETHER = 20  # mechanisms in a process of Octave
VEHICLE = Path(__file__).resolve().parents[2] / "configs" / "vehicles" / "buggy.toml"

Inputs = Mapping[str, np.ndarray]
Found = dict[str, np.ndarray]


# ---- running texts ---------------------------------------------------------------------------------------------------


def in_c(functions: Sequence[Formula], inputs: Sequence[Inputs], folder: Path) -> dict[str, list[Found]]:
    if COMPILER is None:
        raise NotHere("no C compiler")
    files = [folder / f"{one.name}.c" for one in functions]
    for file, one in zip(files, functions, strict=True):
        file.write_text(written_in(one, "c"))
    options = [
        "-std=c99",
        "-pedantic",
        "-O0",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Werror",
        "-shared",
        "-fPIC",
    ]
    subprocess.run([COMPILER, *options, "-o", folder / "texts.so", *files, "-lm"], check=True, timeout=300)
    code = ctypes.CDLL(str(folder / "texts.so"))
    pointer = ctypes.c_void_p
    found: dict[str, list[Found]] = {}
    for one in functions:
        call = getattr(code, one.name)
        for arrays in inputs:
            out = {a.name: np.full(a.shape, np.nan) for a in one.writes}
            reads = [None if a.usual else np.ascontiguousarray(arrays[a.name], float) for a in one.reads]
            call(*(None if a is None else a.ctypes.data_as(pointer) for a in reads),
                 *(a.ctypes.data_as(pointer) for a in out.values()))  # fmt: skip
            found.setdefault(one.name, []).append(out)
    return found


def in_python(functions: Sequence[Formula], inputs: Sequence[Inputs]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for one in functions:
        names: dict[str, Any] = {}
        exec(compile(written_in(one, "python"), f"{one.name}.py", "exec"), names)  # our own text
        for arrays in inputs:
            out = names[one.name](*(arrays[a.name].tolist() for a in one.reads if not a.usual))
            out = out if len(one.writes) > 1 else (out,)
            found.setdefault(one.name, []).append({a.name: v for a, v in zip(one.writes, out, strict=True)})
    return found


def in_matlab(texts: Sequence[tuple[Formula, Sequence[Inputs]]], folder: Path) -> dict[str, list[Found]]:
    """By Octave, in one process for all: it takes longer to start than to run a text. Names must differ."""
    if OCTAVE is None:
        raise NotHere("no Octave")
    lines = [f"addpath('{folder}');"]
    for one, inputs in texts:
        (folder / f"{one.name}.m").write_text(written_in(one, "matlab"))
        outs = [a.name for a in one.writes]
        for arrays in inputs:
            reads = ", ".join(f"[{', '.join(map(repr, arrays[a.name].tolist()))}]" for a in one.reads if not a.usual)
            lines.append(f"[{', '.join(outs)}] = {one.name}({reads});")
            lines += [f"A = {name}.'; printf('%.17g\\n', A(:));" for name in outs]
    (folder / "run_all.m").write_text("\n".join(lines) + "\n")
    command = [OCTAVE, "--norc", "--no-gui", "--quiet", str(folder / "run_all.m")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    numbers = iter(map(float, done.stdout.split()))
    return {
        one.name: [
            {a.name: np.array([next(numbers) for _ in a.values]).reshape(a.shape) for a in one.writes} for _ in inputs
        ]
        for one, inputs in texts
    }


def by_graph(functions: Sequence[Formula], inputs: Sequence[Inputs]) -> dict[str, list[Found]]:
    """The graph interpreted: no text at all."""
    found: dict[str, list[Found]] = {}
    for one in functions:
        for arrays in inputs:
            known = {a.name: np.array(a.usual) if a.usual else arrays[a.name] for a in one.reads}
            values = one.graph.evaluate([e for a in one.writes for e in a.values], known)
            parts = np.split(values, np.cumsum([len(a.values) for a in one.writes])[:-1])
            out = {a.name: part.reshape(a.shape) for a, part in zip(one.writes, parts, strict=True)}
            found.setdefault(one.name, []).append(out)
    return found


def apart(a: dict[str, list[Found]], b: dict[str, list[Found]]) -> float:
    """The largest difference of two runs, relative to the largest number of each array; NaN counts as infinite."""
    most = 0.0
    for name, runs in b.items():
        for one, other in zip(a[name], runs, strict=True):
            for array, values in other.items():
                size = max(float(np.abs(values).max(initial=0.0)), 1.0)
                off = float(np.abs(one[array] - values).max(initial=0.0)) / size
                most = max(most, off if off < np.inf else np.inf)
    return most


# ---- random mechanisms -----------------------------------------------------------------------------------------------

JOINTS: tuple[Callable[[Mechanism, str, Any, Any, np.ndarray, np.random.Generator], object], ...] = (
    lambda m, name, a, b, at, random: m.revolute(name, a, b, at, _unit(random)),
    lambda m, name, a, b, at, random: m.prismatic(name, a, b, at, _unit(random)),
    lambda m, name, a, b, at, random: m.cylindrical(name, a, b, at, _unit(random)),
    lambda m, name, a, b, at, random: m.spherical(name, at if a is None else a.at(at), b.at(at)),
    lambda m, name, a, b, at, random: m.universal(name, a, b, at, (1.0, 0.2, 0.0), (-0.2, 1.0, 0.3)),
    lambda m, name, a, b, at, random: m.weld(name, a, b, at),
)


def random_mechanism(seed: int) -> Mechanism:
    """Two to six bodies, each on an earlier one or the world by any joint; springs, and rods that close loops."""
    random = np.random.default_rng(seed)
    m = Mechanism()
    bodies: list[Any] = []
    for k in range(int(random.integers(2, 7))):
        at = random.uniform(-1.0, 1.0, 3) + np.array([0.7 * k, 0.0, 0.0])
        nodes = [m.point(f"o{k}", at), *(m.vector(f"{c}{k}", e) for c, e in zip("xyz", np.eye(3), strict=True))]
        A = random.uniform(-0.2, 0.2, (3, 3))
        inertia = A @ A.T + 0.3 * np.eye(3)
        body = m.body(f"body {k}", nodes, random.uniform(0.5, 3.0), at + random.uniform(-0.1, 0.1, 3), inertia)
        parent = None if k == 0 else (None, *bodies)[int(random.integers(k + 1))]
        JOINTS[int(random.integers(len(JOINTS) - (k == 0)))](
            m, f"joint {k}", parent, body, at + random.uniform(-0.4, 0.4, 3), random
        )
        bodies.append(body)
        anchor = random.uniform(-2.0, 2.0, 3)
        m.spring(f"spring {k}", anchor, body.at(at + random.uniform(-0.3, 0.3, 3)), 50.0, 1.0, length=0.5)
    for k in range(int(random.integers(0, 3))):
        a, b = random.choice(len(bodies), 2, replace=False)
        first, second = (m.nodes[f"o{i}"] for i in (a, b))
        ends = m.where(first) + np.array([0.1, 0.2, 0.3]), m.where(second) + np.array([0.0, 0.3, k])
        m.rod(f"rod {k}", bodies[a].at(ends[0]), bodies[b].at(ends[1]))
    return m


def _unit(random: np.random.Generator) -> np.ndarray:
    axis = random.normal(size=3)
    return np.asarray(axis / np.linalg.norm(axis))


def states(one: Writer, random: np.random.Generator, count: int) -> list[dict[str, np.ndarray]]:
    """Arguments with the loops closed, near where the mechanism is assembled, all velocities random."""
    tree, out = one.tree, list[dict[str, np.ndarray]]()
    for trial in range(20 * count):
        reach = 0.4 * 0.97**trial
        x, left = close_loops(tree, tree.assembled + random.uniform(-reach, reach, tree.n), tree.start)
        if not left < 1e-12:
            continue
        u = np.zeros((len(tree.start), 3))
        u[:, 0] = tree.start
        out.append({
            "x": x, "ref": np.tile([1.0, 0.0, 0.0, 0.0], len(tree.balls)), "w": random.uniform(-2.0, 2.0, tree.n),
            "u": u.ravel(), "a": random.uniform(-5.0, 5.0, len(one.independent)),
        })  # fmt: skip
        if len(out) == count:
            return out
    raise MechanismError("loops do not close near the drawing")


def against_natural(m: Mechanism, one: Writer, inputs: Sequence[Inputs], found: dict[str, list[Found]]) -> float:
    """Accelerations M \\ F of the texts, as those of natural coordinates, against the ones that these find; NaN where
    these say of themselves that they are ill conditioned there. Its places have been written."""
    g, tree = one.g, one.tree
    full = one.accelerations({k: g.input("a", i) for i, k in enumerate(one.independent)})
    rates = [one.eq.rate(form) for form in tree.columns]
    seconds = [one.eq.second(form, full) for form in tree.columns]
    with warnings.catch_warnings():
        warnings.simplefilter("error", IllConditioned)
        try:
            system, most = m.compile(1e-3), 0.0
        except IllConditioned:
            return np.nan  # by their own words
    mass, forces = (next(runs for name, runs in found.items() if name.endswith(end)) for end in ("_mass", "_forces"))
    for arrays, M, F in zip(inputs, mass, forces, strict=True):
        a = np.linalg.solve(M["M"], F["F"])
        known = {**arrays, "a": a, "p": np.array(one.links.p.values)}
        q, qd, qdd = np.split(g.evaluate([*one.values, *rates, *seconds], known), 3)
        state = system.state()
        state.q[:], state.qd[:] = q, qd
        accelerations(state)
        most = max(most, float(np.abs(state.qdd - qdd).max()) / max(float(np.abs(qdd).max()), 1.0))
    return most


def random_texts(
    mechanisms: Annotated[int, "random mechanisms"] = 100, seed: Annotated[int, "of the first"] = 0
) -> Iterator[Row]:
    """Every function of random mechanisms, at 10 states each; and how long a system of a car's size takes."""
    apart_most = apart_octave = natural_most = 0.0
    waiting: list[tuple[Formula, Sequence[Inputs]]] = []  # for Octave
    known: dict[str, list[Found]] = {}
    count, refused, loops, ill, tried = 0, 0, 0, 0, seed
    while count < mechanisms:
        m = random_mechanism(tried)
        tried += 1
        try:
            one = Writer(m, make_tree(m), None)
            if not one.independent:
                continue
            one.write_places()
            inputs = states(one, np.random.default_rng(tried), STATES)
            functions = formulas(m, f"random_{count}", tuple(QUANTITIES))
        except MechanismError:
            refused += 1
            continue
        count += 1
        loops += bool(one.loops)
        with tempfile.TemporaryDirectory() as folder:
            c, python = in_c(functions, inputs, Path(folder)), in_python(functions, inputs)
            if OCTAVE:
                waiting += [(f, inputs) for f in functions]
                known |= python
            if waiting and (count % TOGETHER == 0 or count == mechanisms):
                apart_octave = max(apart_octave, apart(known, in_matlab(waiting, Path(folder))))
                waiting, known = [], {}
        apart_most = max(apart_most, apart(c, python), apart(python, by_graph(functions, inputs)))
        if count % 100 == 0:
            note(f"{count} of {mechanisms} mechanisms")
        off = against_natural(m, one, inputs, python)
        ill += bool(np.isnan(off))
        natural_most = max(natural_most, 0.0 if np.isnan(off) else off)
    yield at_least("mechanisms", count, mechanisms)
    yield figure("of these with loops", loops)
    yield figure("refused besides, by a sentence", refused)
    yield at_most("C, Python and the graph apart, relative", apart_most, APART)
    if OCTAVE:
        yield at_most("MATLAB, by Octave, and Python apart, relative", apart_octave, APART)
    else:
        yield figure("MATLAB", "not tried: no Octave here")
    yield figure("of these natural coordinates call themselves ill conditioned, and are not compared", ill)
    yield at_most("accelerations apart from natural coordinates, relative", natural_most, 1e-7)
    sources = gather(VEHICLE)
    car = assemble(sources.toml(), sources, {}).car.mechanism
    for language in LANGUAGES:
        then = time.process_time()
        texts = [written_in(one, language) for one in formulas(car, "buggy", tuple(QUANTITIES))]
        spent = time.process_time() - then
        yield figure(f"the buggy in {language}", sum(text.count("\n") for text in texts), "lines")
        yield at_most(f"the buggy in {language}, processor time", spent, 2.0, "s")
