"""The token of a page: new for every run, or from a file of one's own or the environment; in no record."""

import os
from pathlib import Path

import pytest

from sync.config.config import View
from sync.errors import ConfigError
from sync.files import token as tokens
from sync.files.token import new_token, page_token, redacted, without_tokens

TOKEN = "abcdefghijklmnop0123"


def test_every_run_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tokens.VARIABLE, raising=False)
    found = {page_token(), page_token(), new_token()}
    assert len(found) == 3 and all(len(token) >= 43 for token in found)


def test_the_environment_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tokens.VARIABLE, TOKEN)
    assert page_token() == TOKEN
    assert tokens.VARIABLE not in os.environ, "what is started later does not inherit it"


def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert page_token(file) == TOKEN
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="others may read"):
        page_token(file)


@pytest.mark.parametrize("text", ["short", "", "with spaces in it 0123456789", "x" * 129, "käse" * 8])
def test_a_token_has_a_form_and_is_not_said(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="16 to 128 letters") as refused:
        page_token(file)
    assert not text or text not in str(refused.value)


def test_it_is_no_part_of_a_configuration() -> None:
    with pytest.raises(ValueError, match="TANDEM_TOKEN"):
        View.model_validate({"token": TOKEN})
    assert "token" not in View().model_dump()


@pytest.mark.parametrize(
    "line",
    [
        f'token = "{TOKEN}"', f"token='{TOKEN}'", f'# token = "{TOKEN}"', f'view = {{ token = "{TOKEN}" }}',
        f'"token": "{TOKEN}"',
    ],
)  # fmt: skip
def test_a_record_keeps_no_token(line: str) -> None:
    kept = without_tokens(f"a = 1\n{line}  # why\nb = 2\n".encode())
    assert TOKEN.encode() not in kept and b"a = 1\n" in kept and kept.endswith(b"b = 2\n")


def test_what_is_kept_of_an_address() -> None:
    assert (
        redacted(f"the page: http://127.0.0.1:8790/?token={TOKEN}", TOKEN)
        == "the page: http://127.0.0.1:8790/?token=..."
    )
