"""The first minutes at the command line: what `tandem` shows, demos, configurations to change, the manual page."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sim_service.registry import configured
from sync.config.config import load
from sync.config.extras import USES
from tandem.brought import DEMOS
from tandem.commands import cli, first
from tandem.commands.described import described
from tandem.console.shipped_configs import CONFIGS, find_config
from tandem.reports.outcome import EXIT_CODES

COMMANDS = {each.name for each in described(typer.main.get_command(cli.app))}


def run(*words: str) -> str:
    done = CliRunner().invoke(cli.app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def test_tandem_by_itself_shows_five_things_to_do() -> None:
    lines = run().splitlines()
    typed = [line.split("   ")[0].strip() for line in lines if line.startswith("  tandem ")]
    assert typed == list(first.FIRST) and len(typed) == 5
    assert all(words.split()[1] in {name.split()[0] for name in COMMANDS} | {"--help"} for words in typed)
    assert max(map(len, lines)) < 100


def test_demos_are_listed_and_are_commands_that_exist() -> None:
    assert [line.split()[2] for line in run("demo").splitlines()] == list(DEMOS)
    for demonstration in DEMOS.values():
        command, file = demonstration.words
        assert command in COMMANDS and find_config(Path(file)).is_file()


def test_a_demo_that_is_none_is_refused_with_the_nearest() -> None:
    done = CliRunner().invoke(cli.app, ["demo", "pinao"])
    assert done.exit_code == 2 and "did you mean piano?" in done.stderr


@pytest.mark.parametrize("name", ["drive", "twin", "piano_page", "omni_page", "race_car", "tilting_observed", "kart"])
def test_a_configuration_that_is_copied_out_is_whole(name: str, tmp_path: Path) -> None:
    """All that its machine is made from lies beside it, as it is shipped."""
    run("copy", name, str(tmp_path / "mine"))
    file = tmp_path / "mine" / f"{name}.toml"
    config = load(file)
    assert configured(config, file.parent).files == configured(config, CONFIGS).files
    for other in (config.source.get("manoeuvre"), config.source.get("truth")):
        assert other is None or (file.parent / other).is_file()


def test_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    run("copy", "wall", str(tmp_path))
    (tmp_path / "wall.toml").write_text("mine")
    done = CliRunner().invoke(cli.app, ["copy", "wall", str(tmp_path)])
    assert done.exit_code == 2 and "wall.toml: there already" in done.stderr
    assert (tmp_path / "wall.toml").read_text() == "mine"
    done = CliRunner().invoke(cli.app, ["copy", str(tmp_path / "wall.toml"), str(tmp_path / "other")])
    assert done.exit_code == 2 and "tandem ships no such file" in done.stderr


def test_the_manual_page_has_every_command_and_exit_code() -> None:
    page = run("man").replace("\\-", "-")
    assert page.startswith(".TH TANDEM 1")
    assert [name for name in COMMANDS if f".SS tandem {name}" not in page] == []
    assert [code for code in EXIT_CODES if f".B {code}\n" not in page] == []
    requests = set(re.findall(r"^\.\w*", page, re.MULTILINE))
    assert requests == {".TH", ".SH", ".SS", ".TP", ".B", ".PP"}


def test_every_extra_for_users_says_what_it_is_for() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
    assert set(USES) == set(project["optional-dependencies"]) - {"dev", "compare"}
    for text in USES.values():
        for command in re.findall(r"`tandem (\w+)", text):
            assert command in {name.split()[0] for name in COMMANDS}, text
