"""Vectors and matrices of expressions: lists, written out component by component, so that zeros vanish in the graph."""

from collections.abc import Sequence

from tandem.multibody.code.graph import Expr, Graph

Vector = list[Expr]
Matrix = list[Vector]


def zeros(g: Graph, count: int = 3) -> Vector:
    return [g.zero] * count


def identity(g: Graph) -> Matrix:
    return [[g.one if i == j else g.zero for j in range(3)] for i in range(3)]


def plus(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def times(a: Vector, factor: Expr) -> Vector:
    return [x * factor for x in a]


def dot(a: Vector, b: Vector) -> Expr:
    out = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        out = out + x * y
    return out


def cross(a: Vector, b: Vector) -> Vector:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def apply(A: Matrix, v: Vector) -> Vector:
    return [dot(row, v) for row in A]


def apply_transposed(A: Matrix, v: Vector) -> Vector:
    return [dot([row[j] for row in A], v) for j in range(len(A[0]))]


def multiply(A: Matrix, B: Matrix) -> Matrix:
    return [[dot(row, [b[j] for b in B]) for j in range(len(B[0]))] for row in A]


def column(A: Matrix, j: int) -> Vector:
    return [row[j] for row in A]


def matrix_plus(A: Matrix, B: Matrix) -> Matrix:
    return [plus(a, b) for a, b in zip(A, B, strict=True)]


def skew(g: Graph, v: Vector) -> Matrix:
    """[v x]"""
    return [[g.zero, -v[2], v[1]], [v[2], g.zero, -v[0]], [-v[1], v[0], g.zero]]


def turning(g: Graph, w: Vector, a: Vector) -> Matrix:
    """[w x][w x] + [a x]: the acceleration of a point of a body per its place, from the body's origin."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return [
        [-(yy + zz), xy - a[2], xz + a[1]],
        [xy + a[2], -(xx + zz), yz - a[0]],
        [xz - a[1], yz + a[0], -(xx + yy)],
    ]


def rotated_symmetric(R: Matrix, S: Matrix) -> Matrix:
    """R S R^T of a symmetric S, by its upper triangle."""
    RS = multiply(R, S)
    out: Matrix = [[RS[0][0]] * 3 for _ in range(3)]
    for i in range(3):
        for j in range(i, 3):
            out[i][j] = out[j][i] = dot(RS[i], R[j])
    return out


def solve_in_order(g: Graph, A: Matrix, B: Matrix, order: Sequence[tuple[int, int]]) -> tuple[Matrix, Vector]:
    """X of A X = B by elimination with pivots at the given (row, column) places; and the pivots.

    Where the pivots are was decided once, with numbers; the caller checks that none becomes small.
    """
    A, B = [list(row) for row in A], [list(row) for row in B]
    pivots = []
    for k, (r, c) in enumerate(order):
        pivots.append(A[r][c])
        inverse = g.one / A[r][c]
        for i, _ in order[k + 1 :]:
            if A[i][c].value == 0.0:
                continue
            factor = A[i][c] * inverse
            for _, j in order[k + 1 :]:
                A[i][j] = A[i][j] - factor * A[r][j]
            B[i] = [x - factor * y for x, y in zip(B[i], B[r], strict=True)]
    X: Matrix = [zeros(g, len(B[0])) for _ in A]
    for k in range(len(order) - 1, -1, -1):
        r, c = order[k]
        inverse = g.one / A[r][c]
        for m in range(len(B[0])):
            rest = B[r][m]
            for _, j in order[k + 1 :]:
                rest = rest - A[r][j] * X[j][m]
            X[c][m] = rest * inverse
    return X, pivots


def factorised(g: Graph, A: Matrix) -> tuple[Matrix, Vector]:
    """L (unit lower) and 1/D of a symmetric positive definite A = L D L^T."""
    n = len(A)
    L: Matrix = [[g.zero] * n for _ in range(n)]
    inverse: Vector = []
    D: Vector = []
    for j in range(n):
        scaled = [L[j][k] * D[k] for k in range(j)]
        d = A[j][j]
        for k in range(j):
            d = d - L[j][k] * scaled[k]
        D.append(d)
        inverse.append(g.one / d)
        L[j][j] = g.one
        for i in range(j + 1, n):
            value = A[i][j]
            for k in range(j):
                value = value - L[i][k] * scaled[k]
            L[i][j] = value * inverse[j]
    return L, inverse


def solve_factorised(g: Graph, L: Matrix, inverse: Vector, b: Vector) -> Vector:
    n = len(b)
    y = list(b)
    for i in range(n):
        for k in range(i):
            y[i] = y[i] - L[i][k] * y[k]
    y = [v * d for v, d in zip(y, inverse, strict=True)]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            y[i] = y[i] - L[k][i] * y[k]
    return y
