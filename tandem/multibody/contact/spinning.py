"""Impulses of contacts that resist spinning about their normals, too.

A contact has a spin w_s and a spin impulse s within |s| <= mu reach lam_n, the bound. Below it the contact creeps,
w_s = -CREEP s / bound; at the bound it slips, s against w_s. Sliding and spinning have a bound each.

    [w  ]   [G    C ] [lam]   [b    ]
    [w_s] = [C^T  GS] [s  ] + [spins]

Contacts that creep are eliminated from this (Gauss and Jordan), the impulses of the rest are found as without spins
(complementarity.py), and then which contacts creep is looked at again, until nothing changes. One by one in turns they
would take hundreds of rounds: a roller that is held where it touches hardly spins, whatever turns it there.
"""

from sync.compile.jit import inner
from tandem.multibody.contact.complementarity import Contacts, solve_impulses

ROUNDS = 30  # at most
# rounds after which bounds stay (loads that nothing determines may differ from round to round) and one contact changes
# at a time, the first that is wrong: all at once may go round in circles
FEW = 6
WRONG = 1e-9  # of the bound, or of the creep: less is right
CREEP = 1e-3  # rad/s, at the bound


def spinning_size(links: int, contacts: int) -> int:
    """Length of the work of `solve_with_spins`, behind the rows of spins and what they do."""
    rows = 3 * contacts
    return contacts * (2 * links + rows + contacts + 5) + 4 * contacts * (4 * contacts + 1) + rows * (rows + 1)


@inner
def spin_of(cross, own, spins, count, lam, spun, c):
    """How fast contact c spins at the end of the step."""
    w = spins[c]
    for r in range(3 * count):
        w += cross[r * count + c] * lam[r]
    for d in range(count):
        w += own[c * count + d] * spun[d]
    return w


@inner
def eliminate(G, b, cross, own, spins, bounds, slips, count, A):
    """The equations of impulses and spins, free of the spin impulses of contacts that creep. `A`: rows with b last."""
    size, high = 3 * count, 4 * count
    wide = high + 1
    for r in range(size):
        for k in range(size):
            A[wide * r + k] = G[size * r + k]
        for c in range(count):
            A[wide * r + size + c] = A[wide * (size + c) + r] = cross[r * count + c]
        A[wide * r + high] = b[r]
    for c in range(count):
        for d in range(count):
            A[wide * (size + c) + size + d] = own[c * count + d]
        A[wide * (size + c) + size + c] += CREEP / max(bounds[c], 1e-300)
        A[wide * (size + c) + high] = spins[c]
    for c in range(count):
        if slips[c] != 0.0:
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


# long: its arrays are the parts of one system of equations
@inner
def solve_with_spins(
    G, b, cross, own, spins, grip, soft, reach, count, lam, spun, slips, bounds, cap, tolerance, budget, scratch, A,
    G_free, b_free,
):  # fmt: skip
    """Impulses and spin impulses from an estimate; sweeps, the last change over the largest, the rest of the budget.

    `slips`: of each contact the sign of its spin impulse at the bound, 0 where it creeps.
    """
    size, high = 3 * count, 4 * count
    wide = high + 1
    free = Contacts(G_free, b_free, grip, soft, lam)
    sweeps, change = 0, 0.0
    for k in range(ROUNDS):
        for c in range(count):
            if k < FEW:
                bounds[c] = grip[c] * reach * lam[3 * c]
        eliminate(G, b, cross, own, spins, bounds, slips, count, A)
        for r in range(size):
            b_free[r] = A[wide * r + high]
            for c in range(count):
                if slips[c] != 0.0:
                    b_free[r] += A[wide * r + size + c] * slips[c] * bounds[c]
            for i in range(size):
                G_free[size * r + i] = A[wide * r + i]
        used, change, budget = solve_impulses(free, count, cap, tolerance, budget, scratch)
        sweeps += used
        moved, scale, others = 0.0, 1e-300, False
        for c in range(count):
            if slips[c] == 0.0:
                at = wide * (size + c)
                new = -A[at + high]
                for r in range(size):
                    new -= A[at + r] * lam[r]
                for d in range(count):
                    if slips[d] != 0.0:
                        new -= A[at + size + d] * slips[d] * bounds[d]
            else:
                new = slips[c] * bounds[c]
            moved, scale = max(moved, abs(new - spun[c])), max(scale, bounds[c])
            spun[c] = new
        for c in range(count):
            bound, w = bounds[c], spin_of(cross, own, spins, count, lam, spun, c)
            wrong = abs(spun[c]) > (1.0 + WRONG) * bound if slips[c] == 0.0 else slips[c] * w > WRONG * CREEP
            if bound > 0.0 and wrong and (k < FEW or not others):
                slips[c] = (1.0 if spun[c] > 0.0 else -1.0) if slips[c] == 0.0 else 0.0
                others = True
        change = max(change, moved / scale)
        if (not others and change <= tolerance) or budget <= 0:
            break
    for c in range(count):  # whatever was found, no more than the bound
        spun[c] = min(max(spun[c], -bounds[c]), bounds[c])
    return sweeps, change, budget
