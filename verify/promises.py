"""The registry: every promise by name, what it says, where it is measured, how long that takes and what it needs."""

from verify.registry import Promise

PROMISES: dict[str, Promise] = {
    promise.name: promise
    for promise in (
        Promise(
            "golden",
            "Stored runs of earlier versions replay to the bit.",
            "tree.golden:golden",
            0.2,
            quick={},
            drill={},
        ),
    )
}
