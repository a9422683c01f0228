"""Consent to run code of others: the user's own file, or one provided for him, that nobody else can have written."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from sync.errors import ConfigError
from sync.files import consent
from tests.stranger import as_stranger, needs_root

HASH, OTHER = "a1" * 32, "b2" * 32


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(consent.ENVIRONMENT)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_it_is_given_and_revoked_by_hash_in_a_file_of_the_user_s_own(home: Path) -> None:
    assert consent.consented() == {}
    with pytest.raises(consent.ConsentMissing, match=f"a.fmu: .*{HASH}.*`tandem fmu a.fmu --allow` shows what it is"):
        consent.need(HASH, "a.fmu", "tandem fmu a.fmu --allow")
    consent.allow(HASH, "a.fmu\nb")
    consent.allow(OTHER, "other.fmu")
    consent.need(HASH, "a.fmu", "")
    file = home / "config" / "tandem" / "fmu_consent"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert consent.consented() == {HASH: "a.fmu\\x0ab", OTHER: "other.fmu"}  # a name writes no line of its own
    consent.revoke(HASH)
    with pytest.raises(consent.ConsentMissing):
        consent.need(HASH, "a.fmu", "")


def test_a_file_can_be_provided_as_sha256sum_writes_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provided = home / "provided"
    provided.write_text(f"# by the administrator\n{HASH}  battery.fmu\n\n{OTHER} *tyre.fmu\n")
    provided.chmod(0o644)
    monkeypatch.setenv(consent.ENVIRONMENT, str(provided))
    assert consent.consented() == {HASH: "battery.fmu", OTHER: "tyre.fmu"}


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_gives_none_and_takes_none(mode: int) -> None:
    consent.allow(HASH, "a.fmu")
    consent.place().chmod(mode)
    for attempt in (lambda: consent.need(HASH, "a.fmu", ""), lambda: consent.allow(OTHER, "b.fmu")):
        with pytest.raises(ConfigError, match=r"fmu_consent: others may write it, .* chmod 600"):
            attempt()


def test_nor_does_one_in_a_folder_that_others_may_write() -> None:
    consent.allow(HASH, "a.fmu")
    consent.place().parent.chmod(0o777)
    with pytest.raises(ConfigError, match="tandem: others may write it"):
        consent.need(HASH, "a.fmu", "")


@needs_root
def test_nor_does_one_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:  # where others can look
        Path(folder).chmod(0o755)
        provided = Path(folder) / "provided"
        provided.write_text(f"{HASH}  a.fmu\n")
        provided.chmod(0o644)
        monkeypatch.setenv(consent.ENVIRONMENT, str(provided))
        assert as_stranger(consent.consented) == {HASH: "a.fmu"}  # it is root's
        os.chown(provided, 65533, 65533)
        with pytest.raises(AssertionError, match="belongs to another user"):
            as_stranger(consent.consented)
        with pytest.raises(ConfigError, match="belongs to another user"):
            consent.consented()


@pytest.mark.parametrize("line", ["a1b2", f"{HASH}0 a.fmu", f"{HASH.upper()} a.fmu", f"x {HASH}", f"../{HASH}"])
def test_a_line_that_is_no_hash_is_an_error_not_a_consent(line: str) -> None:
    consent.allow(OTHER, "b.fmu")
    consent.place().write_text(line + "\n")
    with pytest.raises(ConfigError, match=r"line 1: .* must be a SHA-256"):
        consent.consented()
