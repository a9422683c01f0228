"""How many examples a property is tried on: `@settings(max_examples=few(200))`.

All of them with `--hypothesis-profile full` (make drill); otherwise an eighth, but never fewer than ten unless that is
what was asked for.
"""

from typing import Any

from hypothesis import settings

FULL = "full"
_LEAST = 10


def thorough() -> bool:
    """Whether all cases are tried, and not only as many as show that each kind is right."""
    return settings.get_current_profile_name() == FULL


def cases(*all_: Any, quick: int = 1) -> list[Any]:
    """Of cases that go the same way through real processes the first are enough while somebody waits."""
    return list(all_ if thorough() else all_[:quick])


def few(count: int) -> int:
    return count if thorough() else min(count, max(_LEAST, count // 8))
