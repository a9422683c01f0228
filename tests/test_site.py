"""The documentation as a site: built without a warning, every link leads somewhere, the reference is complete."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import typer

from sync.config.config import Config
from tandem.commands.cli import app

ROOT = Path(__file__).resolve().parents[1]
_ADDRESS = re.compile(r'(?:href|src)="([^"]*)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr[-3000:]
    return place


def test_every_link_of_the_site_leads_to_a_file_of_it(site: Path) -> None:
    missing, looked = [], 0
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # is shown at any address, and has absolute ones
            continue
        for address in _ADDRESS.findall(page.read_text()):
            path = unquote(urldefrag(address)[0].partition("?")[0])
            if not path or re.match(r"\w+:|//", path):
                continue
            looked += 1
            goal = (page.parent / path).resolve()
            if not (goal.is_file() or (goal / "index.html").is_file()):
                missing.append(f"{page.relative_to(site)}: {address}")
    assert looked > 1000 and missing == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+"')
    found = {match for page in site.rglob("*.html") for match in fetched.findall(page.read_text())}
    assert {each for each in found if 'rel="canonical"' not in each} == set()


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    absent = [str(p) for p in pages if p.name != "README" and not (site / p / "index.html").is_file()]
    assert len(pages) > 80 and absent == []


def test_the_reference_has_every_command_every_key_and_every_bit(site: Path) -> None:
    def text(name: str) -> str:
        return (site / "reference" / name / "index.html").read_text()

    commands = text("commands")
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"tandem {name}" in commands, name
    configuration = text("configuration")
    for section in ("daq", "sim", "transport", "record", "view", "realtime", "supervision"):
        for key in Config.model_fields[section].annotation.model_fields:  # type: ignore[union-attr]
            assert f"<code>{key}</code>" in configuration, f"{section}.{key}"
    assert "NEW_EPOCH" in text("channels") and "130" in text("exit_codes") and "stiffness" in text("machines")
