"""UTC beside the monotonic instants of a record: one number a file, from its start sentinel.

Instants are monotonic and exact. Log and publish times of messages are UTC, so that other tools show a date: an instant
plus `utc_offset_ns`, which was taken once, when the record began. A wall clock that is set meanwhile changes nothing.
"""

from datetime import UTC, datetime, timedelta

KEY = "utc_offset_ns"
_MOST = 1 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")  # noqa: TID251  (a file name)


def wall_clock() -> str:
    return datetime.now(UTC).isoformat()  # noqa: TID251  (a log header)


def as_ns(utc: str) -> int:
    """Of a date in ISO form; raises ValueError."""
    return (datetime.fromisoformat(utc).astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1000


def utc_offset(start: dict[str, str]) -> int:
    """Nanoseconds from the monotonic instants of a record to UTC; 0 if it does not say."""
    stated = start.get(KEY, "")
    if stated:
        return int(stated) if stated.isdecimal() and len(stated) < 20 and int(stated) < _MOST else 0
    return 0


def derived(start: dict[str, str]) -> dict[str, str]:
    """The key for facts that go into another record: as stated, or from the date and the instant of the start, which
    older records have; empty if neither is there."""
    if utc_offset(start):
        return {KEY: start[KEY]}
    try:
        offset = as_ns(start["utc"]) - int(start["monotonic_ns"])
    except (KeyError, ValueError, OverflowError):
        return {}
    return {KEY: str(offset)} if 0 < offset < _MOST and "replay_of" not in start else {}
