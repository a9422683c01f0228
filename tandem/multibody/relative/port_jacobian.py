"""The exact Jacobian of the reduced equations, from what `derivatives` (generate.py) gives and the forces' blocks.

With P the derivatives of the model's ports by independent velocity, R those of their rates along the coordinates, and
of every model force K = -df/dx and C = -df/dxd (natural/forces.py), the generalised forces P^T f change by

    -P^T (K P + C R)   along the coordinates,      -P^T C P   by the velocities,

beside what `derivatives` has with the forces held; the mass matrix' factor makes accelerations of that. A block sees
only the columns that move its ports: they are found once, in the graph, and products run over these alone.

Along a ball's coordinates means about the child's axes. The columns become derivatives by the coordinates themselves
through Z, how their rates follow the velocities: the identity but in the rows of balls, which are an output (`turns`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from numba import int64, types, void
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from sync.compile.array_types import INDICES, VECTOR
from sync.compile.jit import inner, kernel
from tandem.multibody.code.graph import Expr, Graph
from tandem.multibody.natural.equations import Equations as Mechanism
from tandem.multibody.natural.forces import MODEL
from tandem.multibody.relative.tree import Tree

LANES = 4  # columns of a block come in such groups, the last filled up with zeros
HEAD, ENTRY = 4, 6  # of the table: sizes, and for every block


@dataclass(frozen=True)
class PortBlocks:
    """Which independent velocities move the ports of each model force."""

    first: tuple[int, ...]  # port of each block
    sizes: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]  # filled up to whole groups with a column that is there already
    filled: tuple[int, ...]  # how many of them are real
    freedoms: int
    ball_rows: tuple[int, ...]  # independent coordinates of balls

    def packed(self, g: Graph, derivatives: Sequence[Sequence[Expr]]) -> list[Expr]:
        """Of derivatives[velocity][port]: block by block, a row for every port."""
        out = []
        for first, size, columns, real in zip(self.first, self.sizes, self.columns, self.filled, strict=True):
            for port in range(first, first + size):
                out += [derivatives[c][port] if i < real else g.zero for i, c in enumerate(columns)]
        return out

    @property
    def table(self) -> np.ndarray:
        """For the kernels: sizes, blocks, their columns, rows of balls."""
        head = [self.freedoms, len(self.first), len(self.ball_rows), 0]
        at = HEAD + ENTRY * len(self.first)
        entries: list[int] = []
        lists: list[int] = []
        square = packed = 0
        for first, size, columns in zip(self.first, self.sizes, self.columns, strict=True):
            entries += [first, size, len(columns), square, packed, at + len(lists)]
            lists += columns
            square += size * size
            packed += size * len(columns)
        head[3] = at + len(lists)
        return np.array([*head, *entries, *lists, *self.ball_rows], np.int32)

    @property
    def work_size(self) -> int:
        """Of the kernels' memory."""
        sizes = [2 * len(c) * (n + len(c)) for n, c in zip(self.sizes, self.columns, strict=True)]
        return max([*sizes, len(self.ball_rows) ** 2, max(self.sizes, default=0), 1])


def make_blocks(
    mechanism: Mechanism,
    tree: Tree,
    freedoms: int,
    ball_rows: Sequence[int],
    *derivatives: Sequence[Sequence[Expr]],
) -> PortBlocks:
    first, sizes, columns, filled = [], [], [], []
    at = 0
    for element in mechanism.elements.values():
        if element.kind != MODEL:
            continue
        size = len(tree.ports[element.name])
        some = [c for c in range(freedoms) if any(e.value != 0.0 for of in derivatives for e in of[c][at : at + size])]
        first.append(at)
        sizes.append(size)
        filled.append(len(some))
        columns.append((*some, *some[:1] * (-len(some) % LANES)))
        at += size
    return PortBlocks(tuple(first), tuple(sizes), tuple(columns), tuple(filled), freedoms, tuple(ball_rows))


# long: flat arrays and where in them; a kernel takes no object
@intrinsic
def add_product(typingctx, out, out_at, out_row, A, A_at, A_row, A_column, B, B_at, B_row, rows, inner_size, columns):
    """out[i, j] += sum over k of A[i, k] B[k, j], of matrices within vectors; four columns at a time, fused, k from 0.

    Places and distances of rows (and of columns, of A) are given; columns are a multiple of four. Written in vectors of
    four: the compiler would test for overlap before each of many short loops. A and B have nothing of what is written.
    """

    def codegen(context, builder, signature, args):
        kinds = signature.args
        intp = context.get_value_type(types.intp)
        target, left, right = (make_array(kinds[k])(context, builder, args[k]).data for k in (0, 3, 7))
        numbers = {k: context.cast(builder, args[k], kinds[k], types.intp) for k in range(13) if k not in (0, 3, 7)}
        out_at, out_row, A_at, A_row, A_column, B_at, B_row, rows, size, columns = numbers.values()
        lanes = ir.VectorType(ir.DoubleType(), LANES)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        kind = ir.FunctionType(lanes, [lanes] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, "llvm.fma.v4f64")

        def pointer(data, index):
            return builder.bitcast(builder.gep(data, [index]), lanes.as_pointer())

        def tile(row, start, stop, groups):
            """Columns from start to stop, so many groups of four at a time."""
            here = builder.add(out_at, builder.mul(row, out_row))
            factors = builder.add(A_at, builder.mul(row, A_row))
            with cgutils.for_range_slice(builder, start, stop, intp(LANES * groups), intp) as (j, _):
                across = [builder.add(j, intp(LANES * g)) for g in range(groups)]
                places = [pointer(target, builder.add(here, c)) for c in across]
                totals = [cgutils.alloca_once_value(builder, builder.load(place, align=8)) for place in places]
                with cgutils.for_range(builder, size, intp=intp) as inside:
                    at = builder.gep(left, [builder.add(factors, builder.mul(inside.index, A_column))])
                    one = builder.insert_element(ir.Constant(lanes, ir.Undefined), builder.load(at), ir.IntType(32)(0))
                    factor = builder.shuffle_vector(one, one, zeros)
                    below = builder.add(B_at, builder.mul(inside.index, B_row))
                    for c, total in zip(across, totals, strict=True):
                        values = builder.load(pointer(right, builder.add(below, c)), align=8)
                        builder.store(builder.call(fma, [factor, values, builder.load(total)]), total)
                for place, total in zip(places, totals, strict=True):
                    builder.store(builder.load(total), place, align=8)

        # a sum waits for its last product: three groups of columns are summed meanwhile
        wide = builder.sub(columns, builder.srem(columns, intp(3 * LANES)))
        with cgutils.for_range(builder, rows, intp=intp) as row:
            tile(row.index, intp(0), wide, 3)
            tile(row.index, wide, columns, 1)
        return context.get_dummy_value()

    whole = (types.intp,)
    places = (out, *whole * 2, A, *whole * 3, B, *whole * 5)
    return types.void(*places), codegen


@inner
def add_block(table, block, K, C, P, R, work, J, stride):
    """What a model force adds to the derivatives of the generalised forces."""
    n = table[0]
    at = HEAD + ENTRY * block
    size, width, square, packed, columns = table[at + 1], table[at + 2], table[at + 3], table[at + 4], table[at + 5]
    # -df of every port, by x and by w
    total = 2 * width * (size + width)
    for i in range(total):
        work[i] = 0.0
    add_product(work, 0, 2 * width, K, square, size, 1, P, packed, width, size, size, width)
    add_product(work, 0, 2 * width, C, square, size, 1, R, packed, width, size, size, width)
    add_product(work, width, 2 * width, C, square, size, 1, P, packed, width, size, size, width)
    # P^T of that
    reduced = 2 * width * size
    add_product(work, reduced, 2 * width, P, packed, 1, width, work, 0, 2 * width, width, size, 2 * width)
    for i in range(width):
        row = (n + table[columns + i]) * stride
        for j in range(width):
            c = row + table[columns + j]
            J[c] -= work[reduced + 2 * width * i + j]
            J[c + n] -= work[reduced + 2 * width * i + width + j]


@inner
def solve(n, factor, J, stride):
    """Accelerations from generalised forces, in place, in the rows behind the first n; all columns."""
    last = (2 * n - 1) * stride  # the factor has the last velocity first
    whole = stride - stride % LANES
    for i in range(n):
        row = last - i * stride
        add_product(J, row, 0, factor, i * n, 0, 1, J, last, -stride, 1, i, whole)
        for c in range(whole, stride):
            total = J[row + c]
            for k in range(i):
                total += factor[i * n + k] * J[last - k * stride + c]
            J[row + c] = total
    for i in range(n - 1, -1, -1):
        row = last - i * stride
        e = factor[i * n + i]
        for c in range(stride):
            J[row + c] *= e
        add_product(J, row, 0, factor, i * n + i + 1, 0, 1, J, row - stride, -stride, 1, n - 1 - i, whole)
        for c in range(whole, stride):
            total = J[row + c]
            for k in range(i + 1, n):
                total += factor[i * n + k] * J[last - k * stride + c]
            J[row + c] = total


@inner
def by_coordinates(table, turns, work, J, stride):
    """Columns along the coordinates of balls become derivatives by them: J Z^-1."""
    n, m, rows = table[0], table[2], table[3]
    same = True  # Z is the identity where increments are 0
    for a in range(m):
        for j in range(n):
            same = same and turns[2 * n * a + n + j] == (1.0 if table[rows + a] == j else 0.0)
    if same:
        return
    # the balls' part of Z, eliminated without pivots: near the identity, for increments are small
    for a in range(m):
        for b in range(m):
            work[a * m + b] = turns[2 * n * a + n + table[rows + b]]
    for k in range(m):
        inverse = 1.0 / work[k * m + k]
        work[k * m + k] = inverse
        for a in range(k + 1, m):
            e = work[a * m + k] * inverse
            work[a * m + k] = e
            for b in range(k + 1, m):
                work[a * m + b] -= e * work[k * m + b]
    for i in range(2 * n):
        # y Z_bb = the columns of balls, by U and then L
        for b in range(m):
            y = J[i * stride + table[rows + b]]
            for k in range(b):
                y -= J[i * stride + table[rows + k]] * work[k * m + b]
            J[i * stride + table[rows + b]] = y * work[b * m + b]
        for b in range(m - 2, -1, -1):
            y = J[i * stride + table[rows + b]]
            for k in range(b + 1, m):
                y -= J[i * stride + table[rows + k]] * work[k * m + b]
            J[i * stride + table[rows + b]] = y
    # a ball with a dependent coordinate follows other velocities too
    for j in range(n):
        ball = False
        for b in range(m):
            ball = ball or table[rows + b] == j
        if not ball:
            for b in range(m):
                e = turns[2 * n * b + n + j]
                if e != 0.0:
                    for i in range(2 * n):
                        J[i * stride + j] -= J[i * stride + table[rows + b]] * e


@kernel(
    void(INDICES, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, int64), error_model="numpy"
)
def jacobian(table, K, C, P, R, derivatives, turns, factor, work, J, stride):
    """J[:2 n, :2 n], that of (xdot, acceleration) by (x, w) of the n independent coordinates and velocities.

    It is stored row by row, each of length `stride`.
    Columns from 2 n to `stride` of the rows of accelerations are solved too: what came there as a change of generalised
    forces (by states of force elements) leaves as one of accelerations.
    """
    n = table[0]
    for i in range(n):
        for j in range(2 * n):
            J[i * stride + j] = 0.0
            J[(n + i) * stride + j] = derivatives[2 * n * i + j]
        J[i * stride + n + i] = 1.0
    balls = table[3]
    for k in range(table[2]):
        i = table[balls + k]
        for j in range(2 * n):
            J[i * stride + j] = turns[2 * n * k + j]
    for block in range(table[1]):
        add_block(table, block, K, C, P, R, work, J, stride)
    solve(n, factor, J, stride)
    by_coordinates(table, turns, work, J, stride)


@kernel(
    void(INDICES, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, int64, VECTOR), error_model="numpy"
)
def time_derivatives(table, K, C, P, port_drift, rate_drift, drift, factor, J, stride, out):
    """out[:2 n], the derivative of (xdot, acceleration) by time alone; J as `jacobian` has left it."""
    n, m, rows = table[0], table[2], table[3]
    for i in range(n):
        out[i], out[n + i] = 0.0, drift[i]
    for block in range(table[1]):
        at = HEAD + ENTRY * block
        first, size, width, square = table[at], table[at + 1], table[at + 2], table[at + 3]
        packed, columns = table[at + 4], table[at + 5]
        for a in range(size):
            f = 0.0
            for b in range(size):
                e = square + a * size + b
                f -= K[e] * port_drift[first + b] + C[e] * rate_drift[first + b]
            for i in range(width):
                out[n + table[columns + i]] += P[packed + a * width + i] * f
    solve(n, factor, out, 1)
    for k in range(m):
        out[table[rows + k]] = drift[n + k]
    for k in range(m):
        moved = drift[n + m + k]
        if moved != 0.0:
            for i in range(2 * n):
                out[i] -= J[i * stride + table[rows + k]] * moved
