"""Every number and date that a record states is checked where it is read: none ends a command, nor the list of runs."""

import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sync.record import open_run
from sync.record.heads import NOTICE, PART, START, Earlier, Left
from sync.record.resume import left_off
from sync.record.rings import RING, Account, Ring
from sync.record.run import RunError
from sync.record.writer import END, RunWriter
from tandem.commands.runs import listed
from tandem.console.present import print_report
from tandem.records.exchange.tables import tables_of
from tandem.records.inspect.info import info, report
from tests.system.conftest import tandem
from tests.tandem.runs import BEGIN_NS, DAQ, daq_words

VALUES = ("x", "-1", "9" * 19, "9" * 4000, "²")
LATE = "9999-12-31T23:59:59-23:59"  # behind the end of the calendar
FIELDS = {
    START: ("monotonic_ns", "utc_offset_ns", "utc", "recorded_utc"),
    END: ("monotonic_ns", "lost /daq", "dropped /daq", "recorded /daq", "deleted_parts", "unsynced"),
    RING: ("segment", "position", "recorded", "before", "channel"),
    NOTICE: ("monotonic_ns", "number"),
    PART: ("deleted", "deleted_bytes", "begun_ns", "at_ns", "noted", "unsynced", "topics"),
}


def write(folder: Path, kind: str, field: str, value: str) -> None:
    """A part whose record of this kind has another value in this field."""
    folder.mkdir()
    writer = RunWriter(folder, fsync_s=1e6, part=2)
    plain = writer._file.metadata

    def metadata(name: str, fields: dict[str, str]) -> None:
        if name == kind == PART:
            fields = {**fields, "earlier": json.dumps({**json.loads(fields["earlier"]), field: value})}
        elif name == kind:
            fields = {**fields, field: value}
        plain(name, fields)

    writer._file.metadata = metadata  # type: ignore[method-assign]
    earlier = Earlier({"/daq": Left(Account(3, 5, 5))}, begun_ns=BEGIN_NS, at_ns=BEGIN_NS)
    writer.belongs("run", earlier.as_json())
    writer.begin({"name": "one", "utc": "2026-01-01T00:00:00+00:00"}, {}, BEGIN_NS)
    writer.topic("/daq", DAQ)
    writer.ring(Ring("/daq", "open", 3, 5, 5))
    writer.note("a word", BEGIN_NS, 1)
    writer.add("/daq", daq_words(10), 5)
    assert writer.finish({"reason": "stopped", "lost /daq": "0", "dropped /daq": "0"}, {}, BEGIN_NS)


def use(folder: Path) -> None:
    """Whatever reads heads; errors of ours are answers."""
    left_off(folder)
    try:
        run = open_run(folder)
    except RunError:
        return
    found = info(run)
    print_report(Console(file=io.StringIO()), report(found))
    json.dumps(found)
    if importlib.util.find_spec("asammdf"):  # the extra mf4
        from tandem.records.exchange.mf4 import started

        started(run.start, tables_of(run))


@pytest.mark.parametrize("kind", FIELDS)
def test_no_value_of_a_head_ends_a_command(kind: str, tmp_path: Path) -> None:
    for k, (field, value) in enumerate((field, value) for field in FIELDS[kind] for value in VALUES):
        write(tmp_path / str(k), kind, field, value)
        try:
            use(tmp_path / str(k))
        except Exception as error:
            raise AssertionError(f"{kind} {field} = {value[:40]!r}") from error
    assert len(listed(tmp_path)) == k + 1


@pytest.mark.parametrize("field, value, what", [("monotonic_ns", "x", "number"), ("utc", LATE, "date")])
def test_what_is_left_out_is_reported_and_the_rest_is_read(field: str, value: str, what: str, tmp_path: Path) -> None:
    write(tmp_path / "run", START, field, value)
    run = open_run(tmp_path / "run")
    assert run.losses == [f"run.2.mcap: tandem.start: {field} = '{value}' is no {what}"]
    assert len(run.topics["/daq"].blocks) == 10 and run.start["name"] == "one"


def test_one_record_that_cannot_be_listed_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("good", "bad", "other"):
        write(tmp_path / name, START, "utc_offset_ns", "1767225600000000000")
    from sync.record import resume

    plain = resume.complete

    def complete(path: Path) -> Any:
        if path.parent.name == "bad":
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(resume, "complete", complete)
    found = {Path(run.run).name: run.unreadable for run in listed(tmp_path)}
    assert found == {"good": "", "other": "", "bad": "Permission denied"}
    assert tandem("runs", str(tmp_path)).code == 0
