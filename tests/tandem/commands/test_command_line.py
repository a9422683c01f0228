"""The command line in one mould: every command and every option is listed here and held to the same rules."""

import contextlib
import errno
import io
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sync.clock import now_ns, sleep_until
from sync.compile import build
from sync.record import RunWriter
from tandem.commands import cli
from tandem.commands.runs import listed
from tandem.console.terminal import errors
from tests.tandem.runs import write_drive

ROOT = Path(__file__).resolve().parents[3]
# a file or folder that is written, the folder of runs, what overrides a setting: the same word everywhere
SAME = {"out": "--out", "runs": "--runs", "overrides": "--set", "as_json": "--json", "seconds": "--seconds"}
UNITS = ("s", "ms", "hz", "mm", "kmh", "kgm2", "nms", "mb", "m", "deg", "seconds")
# numbers that have no unit: counts, seeds, ratios, addresses
UNITLESS = {
    "count",
    "workers",
    "seed",
    "port",
    "domain",
    "modes",
    "repeats",
    "gain",
    "jobs",
    "samples",
    "steps",
    "batch",
    "rounds",
}
NO_REPORT = {
    "view": "a page, until it is closed",
    "completion": "a script for a shell",
    "man": "a page for man",
    "demo": "another command's options",
}
# positional, by path or name; commands that read one
CONFIGURED = (
    "run", "drive", "daq", "sim", "device", "record", "doctor", "latency", "calibrate", "midi", "foxglove",
    "ros2", "xcp",
    "study wall", "study caster-trials", "replay", "import", "tune", "view",
)  # fmt: skip
OLD = ("--vehicle", "--config", "--save", "--report", "--trails", "--file")


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    group = typer.main.get_command(cli.app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


ALL = dict(commands())
OPTIONS = [(name, option) for name, command in ALL.items() for option in command.params]


def test_there_are_commands_and_options() -> None:
    assert len(ALL) >= 30 and len(OPTIONS) >= 150


@pytest.mark.parametrize("name", ALL)
def test_every_command_says_what_it_does_and_reports_as_json(name: str) -> None:
    command = ALL[name]
    assert command.help and command.help.splitlines()[0].endswith((".", ":")), name
    flags = {flag for option in command.params for flag in option.opts}
    assert ("--json" in flags) != (name in NO_REPORT), name


def test_every_command_stands_in_a_group_of_the_help() -> None:
    groups = {cli.RUN, cli.PARTS, cli.RECORDS, cli.MACHINES, cli.HERE}
    top = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    assert {
        name: command.rich_help_panel for name, command in top.items() if command.rich_help_panel not in groups
    } == {}


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_configuration_is_positional_and_found_by_its_name(name: str) -> None:
    arguments = [option for option in ALL[name].params if option.param_type_name == "argument"]
    (found,) = [option for option in arguments if "CONFIG" in (option.metavar or "")]
    assert "name" in found.help and "configs/" in found.help


def test_options_are_in_the_mould() -> None:
    wrong, numbers = [], 0
    for name, option in OPTIONS:
        if option.param_type_name != "option" or option.name == "help":
            continue
        where = f"{name} {option.opts[0]}"
        if not option.help or not option.help.rstrip().endswith("."):
            wrong.append(f"{where}: no sentence of help")
        if not all(re.fullmatch(r"--[a-z][a-z0-9]*(-[a-z0-9]+)*", flag) for flag in option.opts):
            wrong.append(f"{where}: not one long name in small letters")
        if option.name in SAME and option.opts != [SAME[option.name]]:
            wrong.append(f"{where}: is called {SAME[option.name]} elsewhere")
        if "[" in option.help:
            wrong.append(f"{where}: what stands in brackets is a style for rich, and is not shown")
        if set(OLD) & set(option.opts):
            wrong.append(f"{where}: a spelling of before")
        number = option.type_descriptor.annotation in (int, float)
        numbers += number
        if number and option.name not in UNITLESS and option.name.rsplit("_", 1)[-1] not in UNITS:
            wrong.append(f"{where}: a number without a unit in its name")
        if re.search(r"\b(km/h|ms|mm|Hz|N m|kg)\b", option.help or "") and number:
            wrong.append(f"{where}: the unit stands in the help, not in the name")
        if option.default is None and option.required is False and not _explained(option):
            wrong.append(f"{where}: what it is without it is not said")
    assert not wrong, "\n".join(wrong)
    assert numbers >= 25


def test_arguments_are_in_capitals_and_those_of_a_command_differ() -> None:
    found = [(name, o.metavar) for name, o in OPTIONS if o.param_type_name == "argument"]
    assert [(name, metavar) for name, metavar in found if not metavar or metavar != metavar.upper()] == []
    assert len(set(found)) == len(found) >= 25


def _explained(option: Any) -> bool:
    """An option without a default says what happens without it, or is something that is done only where asked for."""
    done_if_asked = {"overrides", "settings", "out", "maps", "rows", "channels"}
    if isinstance(option.show_default, str):  # said by the help itself
        return True
    return option.name in done_if_asked or bool(re.search(r"Default|default|None|A |An |Such|The same", option.help))


def test_values_of_which_there_are_few_are_choices() -> None:
    """So that help, completion and errors name them."""
    for name, option in (
        ("replay", "mode"),
        ("export", "to"),
        ("plot", "to"),
        ("latency", "transport"),
        ("view", "mode"),
    ):
        done = CliRunner().invoke(
            cli.app, [name, "x", *(["y"] if name == "compare" else []), f"--{option}", "nonsense"]
        )
        assert done.exit_code == 2 and "is not one of" in done.stderr, (name, done.stderr)


def test_help_of_every_command_is_printed_with_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("", "run", "mechanism", "study caster"):
        done = CliRunner().invoke(cli.app, [*name.split(), "--help"])
        assert done.exit_code == 0 and "<bool>" not in done.stdout
        if not name:  # commands before exit codes, which flow to the margin
            assert done.stdout.index("Machines examined") < done.stdout.index("3 the model diverged; 4 only")
    assert "default: 75.0" in done.stdout and "default: buggy" in done.stdout.replace("(", "").replace(")", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("view --port x", "tandem: view: --port x: must be a valid integer"),
        ("view --port=65536", "tandem: view: --port 65536: must be less than or equal to 65535"),
        ("view --set view.port=-1", "view.port = -1: must be a port from 0 (any that is free) to 65535, or 'auto'"),
        ("foxglove --port -1", "tandem: foxglove: --port -1: must be greater than or equal to 0"),
        ("xcp --host 0.0.0.0", "tandem: --host 0.0.0.0: is not this machine alone: it needs --key FILE"),
        ("xcp --host here", "tandem: --host here: must be an IPv4 address"),
        ("ros2 --connect tcp/192.0.2.1:7447", "tandem: --connect = 'tcp/192.0.2.1:7447': is not this machine alone"),
        ("ros2 --domain 233", "tandem: ros2: --domain 233: must be less than or equal to 232"),
        ("view vehicles/buggy", "describes a machine (it has `machine`), a configuration is expected"),
        ("daq mechanisms/four_bar", "describes a mechanism (it has `bodies`), a configuration is expected"),
        ("view --delay-ms nan x", "--delay-ms nan: must be"),
        ("replay x --mode ideal --from nan", "tandem: replay: --from nan: must be a finite number"),
        ("export x", "Missing option '--to'. Choose from: csv, parquet, mf4, mcap; see `tandem export --help`"),
        ("vew", "No such command 'vew'"),
        ("sim --bogus", "tandem: sim: No such option: --bogus"),
        ("device wall b", "tandem: device: Got unexpected extra argument"),
        ("runs \x1b[31m\n", "tandem: \\x1b[31m\\x0a: no such folder of runs"),
    ],
)
def test_what_is_wrong_on_a_command_line_is_one_line(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tandem", *words.split(" ")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert ended.value.code == 2 and printed.out == ""
    assert said in printed.err and len(printed.err.splitlines()) == 1


@pytest.mark.parametrize(
    "words", ["replay", "mechanism", "iso circle", "vehicle report", "study caster", "study steering", "sweep"]
)
def test_a_file_that_is_not_there_is_reported_before_anything_is_compiled(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: str) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(build, "ensure_for", never)
    monkeypatch.setattr(build, "ensure", never)
    done = CliRunner().invoke(cli.app, [*words.split(), "nowhere/x.toml"])
    assert done.exit_code == 2 and "nowhere/x.toml: no such" in done.stderr, done.stderr


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(cli.app, ["--version"])
    assert done.exit_code == 0 and re.fullmatch(r"tandem \d+\.\d+\.\d+\n", done.stdout)


def test_an_unknown_name_of_a_configuration_is_refused_with_those_there_are() -> None:
    done = CliRunner().invoke(cli.app, ["doctor", "no_such_one"])
    assert done.exit_code == 2 and re.search(r"no_such_one: neither a file nor .*\bdrive\b", done.stderr)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script_and_words(shell: str) -> None:
    printed = CliRunner().invoke(cli.app, ["completion", shell])
    assert printed.exit_code == 0 and "_TANDEM_COMPLETE" in printed.stdout
    asked = {"bash": {"COMP_WORDS": "tandem exp", "COMP_CWORD": "1"}}.get(shell, {"_TYPER_COMPLETE_ARGS": "tandem exp"})
    if shell == "fish":
        asked |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_WORD_TO_COMPLETE": "exp"}
    environment = {**os.environ, "_TANDEM_COMPLETE": f"complete_{shell}", **asked}
    command = [sys.executable, "-m", "tandem"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "export" in done.stdout and "drive" not in done.stdout, done.stderr


@pytest.mark.parametrize("command", ["drive", "replay", "runs", "sweep"])
def test_too_few_descriptors_are_a_sentence(command: str, tmp_path: Path) -> None:
    """Where the hard limit is too low; a soft one is raised."""

    def ended(soft: int, hard: int, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "tandem", *words], capture_output=True, text=True, check=False, cwd=tmp_path,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        )  # fmt: skip

    for most in (8, 16, 24, 32, 64, 128):
        done = ended(most, most, command)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert f"may open {most} files" in done.stderr and "256 are needed" in done.stderr
    if command == "runs":
        (tmp_path / "runs").mkdir()
        assert ended(8, 256, "runs").returncode == 0


def test_descriptors_that_run_out_later_are_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, errors():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert left.value.exit_code == 2 and "Too many open files" in capsys.readouterr().err


def test_runs_are_listed_without_reading_them_the_latest_first(tmp_path: Path) -> None:
    for name, count in (("a", 40), ("b", 80)):
        write_drive(tmp_path / name, n=count)
    data = (tmp_path / "a" / "run.mcap").read_bytes()
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "run.mcap").write_bytes(data[: len(data) // 2])
    (tmp_path / "d").mkdir()
    (tmp_path / "e").mkdir()
    (tmp_path / "d" / "run.mcap").write_bytes(b"nothing of ours")
    going_on = RunWriter(tmp_path / "e")
    going_on.begin({}, {}, 0)
    while going_on.sink.pending:
        sleep_until(now_ns() + 10**6)
    found = {Path(run.run).name: run for run in listed(tmp_path)}
    assert found["e"].recording and not found["e"].whole
    going_on.sink.close()  # as it is when its recorder was killed
    (killed,) = [run for run in listed(tmp_path) if Path(run.run).name == "e"]
    assert not killed.recording and not killed.whole
    assert found["b"].topics == {"/daq": 400, "/step": 80} and found["b"].whole
    assert found["b"].seconds == pytest.approx(0.399, abs=0.01) and found["b"].begun_utc.startswith("2026-01-01")
    assert not found["c"].whole and found["c"].seconds is None and not found["d"].whole
    done = CliRunner().invoke(cli.app, ["runs", str(tmp_path), "--json"])
    assert [Path(run["run"]).name for run in json.loads(done.stdout)][-1] == "d"
    shown = CliRunner().invoke(cli.app, ["runs", str(tmp_path)])
    assert shown.stdout.startswith("5 runs in") and "cut short" in shown.stdout
    refused = CliRunner().invoke(cli.app, ["runs", str(tmp_path / "nowhere")])
    assert refused.exit_code == 2 and "nowhere: no such folder of runs" in refused.stderr


def test_texts_use_no_spelling_of_before() -> None:
    old = re.compile(r"tandem [^\n`]*(--vehicle|--config|--save|--report|--trails|--step|--speed)(?![-\w])")
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "configs").rglob("*.toml")]
    decisions = ROOT / "docs" / "decisions"
    assert [path.name for path in texts if decisions not in path.parents and old.search(path.read_text())] == []


def test_an_installed_package_brings_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(
        "from tandem.console.help_text import Brought\ndef polish():\n    'Polish it.'\n"
        "COMMANDS = (Brought('polish', polish), Brought('study polish', polish))\n"
    )
    (tmp_path / "greedy.py").write_text("from theirs import Brought, polish\nCOMMANDS = (Brought('drive', polish),)\n")
    (tmp_path / "broken.py").write_text("import no_such_thing\n")
    facts = tmp_path / "theirs-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[tandem.commands]\ntheirs = theirs\nworse = broken\ngreedy = greedy\n")
    monkeypatch.syspath_prepend(tmp_path)
    for group in (cli.app, cli.study):
        monkeypatch.setattr(group, "registered_commands", list(group.registered_commands))

    def shown() -> set[str]:
        return {name for name, _ in commands() if "polish" in name}

    for words in (["drive", "--help"], ["study", "wall"], ["--seconds", "notes"]):
        cli.bring_others(words)  # ours are found without looking for others
    assert shown() == set()
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        cli.bring_others(["study", "polish"])
    assert shown() == {"polish", "study polish"}
    assert "'drive': there is a command of that name" in said.getvalue()  # ours cannot be taken over
    assert "'worse'" in said.getvalue() and "no_such_thing" in said.getvalue()
