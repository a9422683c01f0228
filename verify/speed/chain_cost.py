"""What an evaluation of a chain costs by its number of links.

Shown is the least time over rounds of bursts, of the planar and the spatial recursion, with the exponent p of the fit
time = c N^p; the recursions are O(N), so p is about 1.
"""

from collections.abc import Iterator

from verify.measure import Row, figure
from verify.multibody.trees import growth


def chain_cost(*, rounds: int = 200) -> Iterator[Row]:
    for kind in growth(rounds=rounds):
        for links, cost in zip(kind["links"], kind["us"], strict=True):
            yield figure(f"{kind['kind']}: {links} links", cost, "us")
        yield figure(f"{kind['kind']}: exponent", kind["exponent"])
