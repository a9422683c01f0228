"""What a platform wheel brings is run where it fits and nobody could have changed it, and never otherwise."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sync.compile import dependencies, numba_shortcuts, processor, shipped
from tests.examples import cases
from tests.sync.actors import ROOT, environment

pytestmark = [
    pytest.mark.skipif(not numba_shortcuts.supported(), reason="not used with this version of numba"),
    pytest.mark.skipif(os.uname().machine not in shipped._BASELINES, reason="no baseline for this processor"),
]
CALL = """
from sync.clock import now_ns
print(sum(now_ns.stats.cache_hits.values()), sum(now_ns.stats.cache_misses.values()), now_ns() > 0)
"""


def ask(program: str, cache: Path, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**environment(), "TANDEM_CACHE": str(cache), **more},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clock's kernels, compiled for the baseline processor."""
    place = tmp_path_factory.mktemp("made")
    program = "from sync.compile import build, dependencies; build.ensure('clock', 'sync.clock')"
    shown = "; print(dependencies.cache_directory())"
    cache = ask(program + shown, place / "cache", **shipped.settings())
    assert shipped.gather(Path(cache), place / "compiled") >= 5
    return place / "compiled"


@pytest.fixture
def brought(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, that may be spoilt, and an empty cache."""
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))
    shutil.copytree(made, tmp_path / "compiled")
    dependencies.cache_directory().mkdir(parents=True, mode=0o700)
    return tmp_path / "compiled"


def test_code_for_the_baseline_processor_is_found_and_run(brought: Path, tmp_path: Path) -> None:
    assert shipped.take(brought) >= 5
    assert shipped.take(brought) == 0, "what is there already is left as it is"
    assert ask(CALL, tmp_path / "cache") == "1 0 True"


def test_any_command_takes_it_first_and_once(brought: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from tandem.commands.cli import app

    monkeypatch.setattr(shipped, "FOLDER", brought)
    monkeypatch.chdir(tmp_path)
    cache = dependencies.cache_directory()
    CliRunner().invoke(app, [])
    assert list(cache.iterdir()) == []
    CliRunner().invoke(app, ["runs"])
    taken = list(cache.rglob("*.nbc"))
    assert len(taken) >= 2
    taken[0].unlink()
    CliRunner().invoke(app, ["runs"])
    assert not taken[0].exists()


def test_without_it_the_same_is_compiled(tmp_path: Path) -> None:
    assert ask(CALL, tmp_path / "cache") == "0 1 True"


def changed(key: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = json.loads((folder / "files.json").read_text())
        if key == "made_with":
            found[key] |= value
        else:
            found[key] = value
        (folder / "files.json").write_text(json.dumps(found))

    return change


def others_may_write(folder: Path) -> None:
    folder.chmod(0o777)


def others_may_write_the_list(folder: Path) -> None:
    (folder / "files.json").chmod(0o666)


@pytest.mark.parametrize(
    "spoil",
    [
        changed("made_with", {"numba": "0.1"}),
        changed("made_with", {"sources": "of others"}),
        changed("made_with", {"python": "cpython-27"}),
        changed("flags", ["a-unit-that-no-processor-has"]),
        changed("files", {"../outside.nbc": "0" * 64}),
        changed("files", {"/etc/outside.nbc": "0" * 64}),
        changed("files", {"step/outside.so": "0" * 64}),
        changed("files", [1]),
        others_may_write,
        others_may_write_the_list,
        lambda folder: (folder / "files.json").write_text("{"),
        lambda folder: (folder / "files.json").unlink(),
    ],
)
def test_what_does_not_fit_or_could_be_of_others_is_not_taken(brought: Path, spoil: Callable[[Path], None]) -> None:
    spoil(brought)
    assert shipped.take(brought) == 0
    assert list(dependencies.cache_directory().iterdir()) == []


def test_what_only_those_could_change_who_could_change_the_code_is_taken(
    brought: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an installation leaves it with umask 002, which is usual where each user has a group of his own."""
    code = tmp_path / "shipped.py"
    code.touch()
    monkeypatch.setattr(shipped, "__file__", str(code))
    for each in (brought.parent, brought, *brought.rglob("*")):
        each.chmod(each.stat().st_mode | 0o020)
    assert shipped.take(brought) == 0
    code.chmod(0o664)
    (brought / "files.json").chmod(0o666)
    assert shipped.take(brought) == 0
    (brought / "files.json").chmod(0o664)
    assert shipped.take(brought) >= 5


def test_a_full_disk_leaves_nothing_half_copied(brought: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, done = Path.write_bytes, []

    def full_after_three(path: Path, content: bytes) -> int:
        done.append(path)
        if len(done) > 3:
            write(path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full_after_three)
    assert shipped.take(brought) == 0
    cache = dependencies.cache_directory()
    listed = json.loads((brought / "files.json").read_text())["files"]
    there = {file.relative_to(cache).as_posix(): file.read_bytes() for file in cache.rglob("*") if file.is_file()}
    assert len(there) == 3
    assert {name: hashlib.sha256(content).hexdigest() for name, content in there.items()}.items() <= listed.items()
    assert not any(name.endswith(".compiled") for name in there), "what says that all is there comes last"
    monkeypatch.undo()
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))
    assert shipped.take(brought) == len(listed) - 3  # once there is room


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make something another user's")
def test_a_cache_of_another_user_is_refused_before_anything_is_copied_into_it(brought: Path, tmp_path: Path) -> None:
    cache = dependencies.cache_directory()
    os.chown(cache, 1, 1)
    program = "from sync.compile import build; build.ensure('clock', 'sync.clock')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**environment(), "TANDEM_CACHE": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (
        done.returncode != 0 and f"{cache}: belongs to another user, and compiled code is run from there" in done.stderr
    )
    assert list(cache.iterdir()) == []


def objects(folder: Path) -> list[Path]:
    return sorted(folder.glob("sync.clock.now_ns-*/*.nbc"))


def truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def exchanged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def written_by_others(file: Path) -> None:
    file.chmod(0o666)


def led_elsewhere(file: Path) -> None:
    file.rename(file.with_suffix(".other"))
    file.symlink_to(file.with_suffix(".other"))


@pytest.mark.parametrize("spoil", cases(exchanged, written_by_others, truncated, Path.unlink, quick=2))
def test_a_file_that_is_not_the_one_that_was_made_is_compiled_again(
    brought: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    for file in objects(brought):
        spoil(file)
    shipped.take(brought)
    cache = dependencies.cache_directory()
    assert not objects(cache) and not list(cache.glob("sync.clock-*.compiled"))
    assert list(cache.glob("sync.clock.sleep_until-*/*.nbc")), "what is whole is taken"
    assert ask(CALL, tmp_path / "cache") == "0 1 True"


def test_a_link_is_not_followed(brought: Path) -> None:
    for file in objects(brought):
        led_elsewhere(file)
    shipped.take(brought)
    assert not objects(dependencies.cache_directory())


def test_each_processor_has_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    here = dependencies.cache_directory()
    monkeypatch.setattr(processor, "name", lambda: "another")
    assert dependencies.cache_directory() != here
