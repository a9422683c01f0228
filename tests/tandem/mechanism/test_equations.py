"""`tandem mechanism FILE --equations`: texts in the run's folder, and one sentence for whatever is wrong."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import CliRunner

from sync.errors import ConfigError
from tandem.commands import cli
from tandem.mechanism.equations import take_away
from tandem.multibody.description.mechanism_file import describe, read_mechanism
from tests.examples import few
from tests.tandem.mechanism.test_mechanism import damaged

FOLDER = Path(__file__).resolve().parents[3] / "configs" / "mechanisms"


def refused(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["tandem", "mechanism", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert ended.value.code == 2 and printed.out == "" and len(printed.err.splitlines()) == 1
    return printed.err


def test_texts_are_written_beside_their_report(tmp_path):
    words = ["mechanism", str(FOLDER / "four_bar.toml"), "--equations", "python", "--with", "forces, mass", "--json"]
    done = CliRunner().invoke(cli.app, [*words, "--runs", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert {file.name for file in folder.iterdir()} >= {"four_bar_mass.py", "four_bar_forces.py", "report.html"}
    assert not (folder / "four_bar_inverse.py").exists()
    figures = json.loads(done.stdout)
    assert list(figures["functions"]) == ["four_bar_mass", "four_bar_forces"]
    assert figures["functions"]["four_bar_mass"]["gives"] == {"M": [1, 1]}
    names = {}
    exec((folder / "four_bar_mass.py").read_text(), names)
    own = figures["functions"]["four_bar_mass"]["usual"]["p"]
    assert np.array_equal(names["four_bar_mass"]([0.0] * 3), names["four_bar_mass"]([0.0] * 3, own))


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    text = (FOLDER.parents[1] / "docs" / "mechanisms.md").read_text()
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "four_bar_mass" in block)
    for file, function in take_away(read_mechanism(FOLDER / "four_bar.toml"), "python").texts.items():
        (tmp_path / file).write_text(function)
    monkeypatch.syspath_prepend(str(tmp_path))
    exec(example, {})
    assert np.isfinite(float(capsys.readouterr().out.strip("[]\n")))


def test_bad_input_is_one_sentence(tmp_path, monkeypatch, capsys):
    four_bar = FOLDER / "four_bar.toml"
    assert "'fortran' is not one of" in refused(monkeypatch, capsys, four_bar, "--equations", "fortran")
    text = refused(monkeypatch, capsys, four_bar, "--equations", "c", "--with", "mass,power")
    assert "--with mass,power: 'power' is none of mass, forces, jacobian, inverse" in text
    assert "--equations" in refused(monkeypatch, capsys, four_bar, "--with", "mass")
    accents = tmp_path / "accents.toml"
    accents.write_text(four_bar.read_text().replace("crank", "größe").replace("größe =", '"größe" ='))
    text = refused(monkeypatch, capsys, accents, "--equations", "matlab")
    assert "bodies.größe = 'größe': must match" in text and "accents.toml" in text


@settings(max_examples=few(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_is_written_or_refused(data):
    message, texts = "m.toml: fine", {}
    try:
        texts = take_away(describe(data, "m.toml"), "python").texts
    except ConfigError as error:
        message = str(error)
    assert all(line.startswith("m.toml: ") for line in message.split("\n"))
    for text in texts.values():
        compile(text, "m.py", "exec")


def test_a_mechanism_that_cannot_be_reduced_is_refused(tmp_path, monkeypatch, capsys):
    file = tmp_path / "loose.toml"
    file.write_text(
        'name = "loose"\n[points]\nO = { at = [0.0, 0.0], fixed = true }\n'
        "A = { at = [1.0, 0.0] }\nB = { at = [2.0, 0.0] }\n"
        '[bodies]\nbar = { nodes = ["O", "A"], mass = 1.0 }\n'
        '[forces]\nspring = { kind = "spring", points = ["A", "B"], stiffness = 10.0 }\n'
    )
    text = refused(monkeypatch, capsys, file, "--equations", "c")
    assert "--equations c: " in text and "mass" in text
