"""The documentation as a site: built without a warning, every link leads somewhere, the reference is complete."""

import html
import json
import os
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
import typer
from pydantic import BaseModel

import tandem
from sim_service.registry import MACHINES
from sync.config.config import Config
from sync.config.input_rows import KINDS
from tandem.commands.cli import app
from tandem.commands.described import described
from tandem.library.stable import CONTRACTS
from tandem.offline.model import load_machine
from tandem.reports.outcome import EXIT_CODES

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


def test_lists_and_code_are_no_paragraphs(site: Path) -> None:
    """A list needs an empty line above, and code must not be indented, or both run on in the sentence before."""
    broken = [
        f"{page.relative_to(site)}: {found[0][:60]!r}"
        for page in site.rglob("*.html")
        for found in re.findall(r"<p>((?:(?!</p>).)*?(\n[-*] |<code>\w+\n))", page.read_text(), re.DOTALL)
    ]
    assert broken == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(?:https?:)?//[^"]+"')
    found = {match for page in site.rglob("*.html") for match in fetched.findall(page.read_text())}
    assert {each for each in found if 'rel="canonical"' not in each} == set()


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    absent = [str(p) for p in pages if p.name != "README" and not (site / p / "index.html").is_file()]
    assert len(pages) > 80 and absent == []


def test_the_reference_has_every_command_every_machine_and_every_bit(site: Path) -> None:
    def text(name: str) -> str:
        return html.unescape((site / "reference" / name / "index.html").read_text())

    commands = text("commands")
    for command in described(typer.main.get_command(app)):
        for word in (f"tandem {command.name}<", *(f"<code>{option.shown}</code>" for option in command.options)):
            assert word in commands, f"{command.name}: {word}"
    codes, machines, library = text("exit_codes"), text("machines"), text("library")
    assert [code for code in EXIT_CODES if f"<td>{code}</td>" not in codes] == []
    assert [name for name in MACHINES if f">{name}<" not in machines] == []
    reference = _of_site("reference")
    for name in sorted(set(MACHINES) - set(reference._OF_OTHERS)):
        model = load_machine(reference._FILES.get(name, name))
        for quantity in (*model.inputs, *model.outputs, *model.machine.parameters):
            assert f"<code>{quantity.name}</code>" in machines, f"{name}: {quantity.name}"
    assert [name for name in tandem.__all__ if not name.startswith("_") and f">tandem.{name}<" not in library] == []
    contracts = text("contracts")
    assert [name for names in CONTRACTS.values() for name in names if name not in contracts] == []
    assert "NEW_EPOCH" in text("channels")


def _of_site(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


def test_a_meaning_that_begins_with_a_unit_keeps_its_small_letter() -> None:
    from daq_service.devices.haptic_settings import Axis, Motion

    keys = _of_site("keys")
    assert keys.meaning(Axis, "source", "lever").startswith("m from the pivot")
    assert keys.meaning(Motion, "source.hand.motion", "period").startswith("s, after which")


def test_every_key_of_a_configuration_has_a_meaning_in_the_reference(site: Path) -> None:
    from daq_service.effort_settings import EffortSettings

    keys = _of_site("keys")
    pages = {
        "configuration": [("", Config), *((f"inputs {kind}", row) for kind, row in KINDS.items())],
        "sources": [("source.effort", EffortSettings), *(("source", s) for s in keys.source_settings().values())],
    }
    without = []
    for page, sections in pages.items():
        text = (site / "reference" / page / "index.html").read_text()
        for table, section in sections:
            without += [f"{page}: {missing}" for missing in _not_told(keys, text, table, section)]
    assert without == []


def _not_told(keys: Any, page: str, table: str, section: Any) -> Iterator[str]:
    """Keys of a section, and of those inside it, that a page lacks or says nothing of."""
    for key, field in section.model_fields.items():
        inner = list(_sections(field.annotation))
        name = f"{table}.{key}".lstrip(".")
        if not inner and (
            f"<code>{key}</code>" not in page or (key != "kind" and not keys.meaning(section, table, key))
        ):
            yield name
        for each in inner if key not in ("inputs", "effort", "source") else ():
            yield from _not_told(keys, page, name, each)


def _sections(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in typing.get_args(annotation):
        yield from _sections(each)


def test_what_is_found_says_of_which_page_it_is(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    pages = {entry["location"]: entry["title"] for entry in found if "#" not in entry["location"]}
    headings = [entry for entry in found if "#" in entry["location"]]
    unclear = [
        entry["title"] for entry in headings if not entry["title"].startswith(pages[entry["location"].split("#")[0]])
    ]
    assert len(headings) > 300 and unclear == []
