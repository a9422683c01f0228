"""Impulses of contacts that resist spinning about their normals, too.

A contact has a spin w_s and a spin impulse s within |s| <= mu reach lam_n, the bound. Below it the contact creeps,
w_s = -CREEP s / bound; at the bound it slips, s against w_s. Sliding and spinning have a bound each.

    [w  ]   [G    C ] [lam]   [b  ]
    [w_s] = [C^T  GS] [s  ] + [b_s]

Contacts that creep are eliminated from this (Gauss and Jordan), the impulses of the rest are found as without spins
(complementarity.py), and then which contacts creep is looked at again, until nothing changes. One by one in turns they
would take hundreds of rounds: a roller that is held where it touches hardly spins, whatever turns it there.
"""

from typing import NamedTuple

import numpy as np

from sync.compile.jit import inner, merged
from tandem.multibody.contact.complementarity import Contacts, solve_impulses
from tandem.multibody.natural.views import take

ROUNDS = 30  # at most
# rounds after which bounds stay (loads that nothing determines may differ from round to round) and one contact changes
# at a time, the first that is wrong: all at once may go round in circles
FEW = 6
WRONG = 1e-9  # of the bound, or of the creep: less is right
CREEP = 1e-3  # rad/s, at the bound


def spinning_size(links: int, contacts: int) -> int:
    """Length of what `lay_out_spins` divides."""
    rows = 3 * contacts
    return contacts * (2 * links + rows + contacts + 5) + 4 * contacts * (4 * contacts + 1) + rows * (rows + 1)


class Spins(NamedTuple):
    """Spins of contacts, as in the equations above, and the system without those that creep."""

    J: np.ndarray  # how each spins with the joints, a row each
    X: np.ndarray  # M^-1 J^T, by columns
    C: np.ndarray
    GS: np.ndarray
    b_s: np.ndarray  # spins without impulses
    before: np.ndarray  # J v
    s: np.ndarray
    slips: np.ndarray  # the sign of s at the bound, 0 where it creeps
    bounds: np.ndarray
    A: np.ndarray  # rows with b last
    G_free: np.ndarray
    b_free: np.ndarray


@merged
def lay_out_spins(work, at, n, m):
    """The parts of a scratch from `at` on, and where they end."""
    J, at = take(work, at, n * m)
    X, at = take(work, at, n * m)
    C, at = take(work, at, 3 * m * m)
    GS, at = take(work, at, m * m)
    b_s, at = take(work, at, m)
    before, at = take(work, at, m)
    s, at = take(work, at, m)
    slips, at = take(work, at, m)
    bounds, at = take(work, at, m)
    A, at = take(work, at, 4 * m * (4 * m + 1))
    G_free, at = take(work, at, 9 * m * m)
    b_free, at = take(work, at, 3 * m)
    return Spins(J, X, C, GS, b_s, before, s, slips, bounds, A, G_free, b_free), at


@inner
def spin_of(spin, lam, count, c):
    """How fast contact c spins at the end of the step."""
    w = spin.b_s[c]
    for r in range(3 * count):
        w += spin.C[r * count + c] * lam[r]
    for d in range(count):
        w += spin.GS[c * count + d] * spin.s[d]
    return w


@inner
def eliminate(contacts, spin, count):
    """The equations of impulses and spins, free of the spin impulses of contacts that creep, into A."""
    G, b, C, GS, A = contacts.G, contacts.b, spin.C, spin.GS, spin.A
    size, high = 3 * count, 4 * count
    wide = high + 1
    for r in range(size):
        for k in range(size):
            A[wide * r + k] = G[size * r + k]
        for c in range(count):
            A[wide * r + size + c] = A[wide * (size + c) + r] = C[r * count + c]
        A[wide * r + high] = b[r]
    for c in range(count):
        for d in range(count):
            A[wide * (size + c) + size + d] = GS[c * count + d]
        A[wide * (size + c) + size + c] += CREEP / max(spin.bounds[c], 1e-300)
        A[wide * (size + c) + high] = spin.b_s[c]
    for c in range(count):
        if spin.slips[c] != 0.0:
            continue
        at = wide * (size + c)
        pivot = A[at + size + c]
        for k in range(wide):
            A[at + k] /= pivot
        for r in range(high):
            share = A[wide * r + size + c]
            if r != size + c and share != 0.0:
                for k in range(wide):
                    A[wide * r + k] -= share * A[at + k]


@merged
def leave_impulses(spin, count):
    """The upper part of A, with the spin impulses of contacts that slip on the right: what is left for lam."""
    A, slips, size = spin.A, spin.slips, 3 * count
    wide = 4 * count + 1
    for r in range(size):
        total = A[wide * r + 4 * count]
        for c in range(count):
            if slips[c] != 0.0:
                total += A[wide * r + size + c] * slips[c] * spin.bounds[c]
        spin.b_free[r] = total
        for i in range(size):
            spin.G_free[size * r + i] = A[wide * r + i]


@merged
def set_spin_impulses(spin, lam, count):
    """The spin impulses that belong to lam, of the lower part of A; the largest change over the largest bound."""
    A, s, slips, bounds, size = spin.A, spin.s, spin.slips, spin.bounds, 3 * count
    moved, scale = 0.0, 1e-300
    for c in range(count):
        if slips[c] == 0.0:
            at = (4 * count + 1) * (size + c)
            new = -A[at + 4 * count]
            for r in range(size):
                new -= A[at + r] * lam[r]
            for d in range(count):
                if slips[d] != 0.0:
                    new -= A[at + size + d] * slips[d] * bounds[d]
        else:
            new = slips[c] * bounds[c]
        moved, scale = max(moved, abs(new - s[c])), max(scale, bounds[c])
        s[c] = new
    return moved / scale


@merged
def switch_wrong(spin, lam, count, only_one):
    """Contacts that creep beyond their bound slip, and those that slip along their impulse creep; whether any was."""
    s, slips, bounds = spin.s, spin.slips, spin.bounds
    switched = False
    for c in range(count):
        if slips[c] == 0.0:
            wrong = abs(s[c]) > (1.0 + WRONG) * bounds[c]
        else:
            wrong = slips[c] * spin_of(spin, lam, count, c) > WRONG * CREEP
        if bounds[c] > 0.0 and wrong:
            slips[c] = (1.0 if s[c] > 0.0 else -1.0) if slips[c] == 0.0 else 0.0
            switched = True
            if only_one:
                break
    return switched


@inner
def solve_with_spins(contacts, spin, reach, count, cap, tolerance, budget, scratch):
    """Impulses and spin impulses from an estimate; sweeps, the last change over the largest, the rest of the budget."""
    friction, lam = contacts.friction, contacts.lam
    free = Contacts(spin.G_free, spin.b_free, friction, contacts.compliance, lam)
    sweeps, change = 0, 0.0
    for k in range(ROUNDS):
        if k < FEW:
            for c in range(count):
                spin.bounds[c] = friction[c] * reach * lam[3 * c]
        eliminate(contacts, spin, count)
        leave_impulses(spin, count)
        used, change, budget = solve_impulses(free, count, cap, tolerance, budget, scratch)
        sweeps += used
        change = max(change, set_spin_impulses(spin, lam, count))
        switched = switch_wrong(spin, lam, count, k >= FEW)
        if (not switched and change <= tolerance) or budget <= 0:
            break
    for c in range(count):  # whatever was found, no more than the bound
        spin.s[c] = min(max(spin.s[c], -spin.bounds[c]), spin.bounds[c])
    return sweeps, change, budget
