"""What we write goes over no link of somebody else, and stays out of his folder unless that was asked for."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from sync.errors import ConfigError
from sync.files.private import by_default, rewrite, written
from sync.transport.keys import make_keys
from tandem.console.terminal import new_run_folder, report, run_folder
from tandem.ensembles.rows import row_file
from tandem.ensembles.table import NotWritten, write_columns
from tandem.records.exchange.exporter import KINDS, export
from tests.system.conftest import tandem
from tests.tandem.runs import write_drive

ROOT = Path(__file__).resolve().parents[2]
ANOTHER = 12345
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives away")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user's that somebody would like to be overwritten."""
    file = tmp_path / "authorized_keys"
    file.write_text("mine")
    return file


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder in which somebody else may do whatever he likes."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_goes_over_no_link(kind: str, tmp_path: Path, shared: Path, precious: Path) -> None:
    """He knows every name but the random one, and the number of our process."""
    run = write_drive(tmp_path / "run")
    target = shared / (f"out.{kind}" if kind in ("mf4", "mcap") else "out")
    for name in {f".out.{os.getpid()}.part{target.suffix}", f".{target.name}.{os.getpid()}.part"}:
        (shared / name).symlink_to(precious)
    export(run, kind, target)
    assert precious.read_text() == "mine" and target.exists() and not target.is_symlink()
    assert {path.stat().st_mode & 0o077 for path in (target, *target.rglob("*"))} == {0}


@pytest.mark.parametrize("replace", [True, False])
def test_a_name_that_is_a_link_is_replaced_or_refused_and_never_followed(
    replace: bool, shared: Path, precious: Path, tmp_path: Path
) -> None:
    for where in (precious, tmp_path / "not_there"):
        link = shared / f"to_{where.name}"
        link.symlink_to(where)
        if replace:
            rewrite(link, b"new")
            assert link.read_text() == "new" and not link.is_symlink()
        else:
            with pytest.raises(FileExistsError), written(link) as part:
                part.write_text("new")
            assert link.is_symlink()
    assert precious.read_text() == "mine" and not (tmp_path / "not_there").exists()


def test_a_name_that_is_taken_while_we_write_is_not_replaced(shared: Path, precious: Path) -> None:
    def put() -> None:
        with written(shared / "out") as part:
            part.write_text("new")
            (shared / "out").symlink_to(precious)

    with pytest.raises(FileExistsError):
        put()
    assert precious.read_text() == "mine" and [path.name for path in shared.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_whoever_exchanges_our_folder_while_we_write_gets_nothing(kind: str, shared: Path, precious: Path) -> None:
    with written(shared / "out.txt", replace=kind == "file") as part:
        (scratch,) = shared.iterdir()
        scratch.rename(shared / "away")
        scratch.mkdir()
        (scratch / part.name).symlink_to(precious)
        if kind == "folder":
            part.mkdir()
            (part / "inside").write_text("new")
        else:
            part.write_text("new")
    assert precious.read_text() == "mine"
    out = shared / "out.txt"
    assert (out if kind == "file" else out / "inside").read_text() == "new" and not out.is_symlink()


def test_what_fails_leaves_nothing(shared: Path) -> None:
    def fail() -> None:
        with written(shared / "out") as part:
            part.mkdir()
            (part / "half").write_text("new")
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert list(shared.iterdir()) == []


def test_tables_rows_and_keys_go_over_no_link(shared: Path, precious: Path) -> None:
    for name in ("table.parquet", f".table.parquet.{os.getpid()}.part", "rows-0000.jsonl", "me.key", "me.key_secret"):
        (shared / name).symlink_to(precious)
    write_columns(shared / "table.parquet", {"a": np.ones(1)}, {})
    with pytest.raises(NotWritten, match="symbolic"), row_file(shared, "0000"):
        pass
    with pytest.raises(ConfigError, match="is there already"):
        make_keys(shared, "me")
    assert precious.read_text() == "mine" and not (shared / "table.parquet").is_symlink()


# ---- whose folder it is ----------------------------------------------------------------------------------------------


@only_root
@pytest.mark.parametrize("command", [("export", "--to", "csv"), ("export", "--to", "mcap"), ("plot",)])
def test_beside_the_record_of_another_nothing_is_written_unless_asked_for(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    write_drive(folder)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ANOTHER, ANOTHER)
    before = sorted(folder.rglob("*"))
    word, *options = command
    done = tandem(word, str(folder), *options)
    assert done.code == 2 and "belongs to another user" in done.said and "--out" in done.said, done
    assert sorted(folder.rglob("*")) == before
    name = "out.mcap" if "mcap" in options else "out.html" if word == "plot" else "out"
    done = tandem(word, str(folder), *options, "--out", str(folder / name))
    assert done.code == 0 and (folder / name).exists(), done


@only_root
def test_a_default_in_a_folder_of_another_or_behind_his_link_is_refused(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert by_default(shared / "below" / "out") == shared / "below" / "out"
    (tmp_path / "link").symlink_to(shared)
    assert by_default(tmp_path / "link" / "out")  # of one's own
    os.chown(tmp_path / "link", ANOTHER, ANOTHER, follow_symlinks=False)
    with pytest.raises(ConfigError, match="link belongs to another user"):
        by_default(tmp_path / "link" / "out")
    os.chown(shared, ANOTHER, ANOTHER)
    with pytest.raises(ConfigError, match="shared belongs to another user"):
        by_default(shared / "below" / "out")
    monkeypatch.chdir(shared)
    with pytest.raises(ConfigError, match="--runs"):
        new_run_folder(Path("runs"), "mine")
    report(run_folder(Path("runs"), "mine"), lambda folder: folder)
    assert "no report" in capsys.readouterr().err and list(shared.iterdir()) == []
    assert new_run_folder(shared / "runs", "mine").is_dir()  # asked for
    monkeypatch.setenv("SUDO_UID", str(ANOTHER))
    assert by_default(shared / "out")


# ---- everywhere ------------------------------------------------------------------------------------------------------

# inside `written`, in a folder that was made for it, or in a cache that only its owner may write to
WRITES = re.compile(r"\.write_(?:text|bytes)\(|open\([^()]*(?:\([^()]*\)[^()]*)*,\s*\"[wax]b?\+?\"|\.open\(\"[wax]")
ALLOWED = {
    "sync/files/private.py": 1,  # `rewrite`
    "sync/compile/dependencies.py": 1,  # a lock in the cache
    "sync/compile/jit.py": 1,  # a lock in the cache
    "sync/compile/shipped.py": 2,  # in the cache, this user's alone; in a wheel that is being made
    "sync/process/service.py": 1,  # /dev/null
    "sync/transport/keys.py": 1,  # in `written`
    "tandem/machines/fmu/archive.py": 1,  # exclusive, in the cache
    "tandem/multibody/natural/system.py": 1,  # a state, by the name that a program gives
    "tandem/calibrate/fragment.py": 1,  # in `written`
    "tandem/ensembles/gpu_runs.py": 1,  # in a temporary folder
    "tandem/ensembles/rows.py": 1,  # no link is followed
    "tandem/records/exchange/mf4_reader.py": 1,  # standard output, as a pipe
    "tandem/records/exchange/csv.py": 2,  # in `written`
    "tandem/fmu/build.py": 3,  # in a temporary folder
    "tandem/records/foxglove/file.py": 1,  # in `written`
    "tandem/live/supervisor/launch.py": 1,  # a pipe
    "tandem/view/address.py": 1,  # exclusive
    "tandem/view/tones.py": 1,  # into memory
    "tandem/view/tuning.py": 1,  # exclusive
}


def test_files_are_written_in_one_way() -> None:
    found = {
        str(file.relative_to(ROOT)): count
        for package in ("sync", "daq_service", "sim_service", "tandem")
        for file in (ROOT / package).rglob("*.py")
        if (count := len(WRITES.findall(file.read_text())))
    }
    assert found == ALLOWED
