"""Random expression graphs, for tests of what is made of them."""

import math

import numpy as np

from tandem.multibody.code.graph import BINARY, UNARY, Expr, Graph

SIZE = 6  # inputs "x", and as many "y"


def inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"x": rng.uniform(-2.0, 2.0, SIZE), "y": rng.uniform(-2.0, 2.0, SIZE)}


def random_graph(seed: int, size: int = 200) -> tuple[Graph, list[Expr]]:
    """Operations of every kind on what was made before, with values that stay of a size; some are outputs."""
    rng = np.random.default_rng(seed)
    g = Graph()
    made = [*g.inputs("x", SIZE), *g.inputs("y", SIZE), g.constant(rng.uniform(-1, 1)), g.constant(-1.5)]
    kinds = [*UNARY, *BINARY * 3, "select"]
    for _ in range(size):
        recent = made[-12:] if rng.random() < 0.7 else made
        a, b, c, d = (recent[int(k)] for k in rng.integers(len(recent), size=4))
        what = str(rng.choice(kinds))
        if what in ("sqrt", "exp"):  # in their domain, and no tower of powers
            e = g.operation(what, [2.0 + g.sin(a)])
        elif what == "div":
            e = a / (2.0 + b * b)
        elif what == "mul":
            e = g.sin(a) * b
        elif what == "select":
            e = g.select(a, b, c, d)
        else:
            e = g.operation(what, [a] if what in UNARY else [a, b])
        made.append(e)
    picked = sorted({*map(int, rng.integers(len(made), size=10)), len(made) - 1})
    return g, [made[k] for k in picked]


def plain(g: Graph, outputs: list[Expr], given: dict[str, np.ndarray]) -> np.ndarray:
    """As `Graph.evaluate`, by the functions of the mathematics library that compiled code calls."""
    v: dict[int, float] = {}
    for id in g.needed(outputs):
        what, *args = g.nodes[id]
        if what == "constant":
            v[id] = args[0]
        elif what == "input":
            v[id] = float(given[args[0]][args[1]])
        elif what in _LIBRARY:
            v[id] = _LIBRARY[what](v[args[0]])
        else:
            a, b = v[args[0]], v[args[-1] if len(args) == 1 else args[1]]
            if what == "select":
                v[id] = v[args[2]] if a < b else v[args[3]]
            else:
                v[id] = _ARITHMETIC[what](a, b)
    return np.array([v[e.id] for e in outputs])


_LIBRARY = {"neg": lambda a: -a, "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "atan": math.atan,
            "exp": math.exp, "abs": math.fabs}  # fmt: skip
_ARITHMETIC = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "min": lambda a, b: a if a < b else b, "max": lambda a, b: b if a < b else a,
}  # fmt: skip
