"""What Python and a notebook print of the library's things: the thing itself, bounded, and nothing of it is markup."""

from pathlib import Path

import numpy as np
import pytest

import tandem
from sync.errors import ConfigError


@pytest.fixture
def made() -> tandem.Table:
    return tandem.load_machine("mass_spring").run({"handle": 0.05}, steps=1000)


def test_a_table_shows_its_first_and_last_rows_with_units(made: tandem.Table) -> None:
    lines = repr(made).splitlines()
    assert lines[0] == "<tandem.Table: 1000 rows, 6 columns>"
    assert "position (m)" in lines[1] and "…" in lines[6] and lines[-1].split()[0] == "5"
    assert len(lines) < 12 and max(map(len, lines)) <= 110
    assert "<td>0.005</td>" in made._repr_html_() and made._repr_html_().count("<tr>") == 8


def test_a_wide_table_names_the_columns_that_it_does_not_show() -> None:
    columns = {f"column_{k}": np.arange(3.0) for k in range(40)}
    assert "besides: column_" in repr(tandem.Table(columns, {})) and "more" in repr(tandem.Table(columns, {}))
    assert repr(tandem.Table({}, {})).startswith("<tandem.Table: 0 rows, 0 columns>")


def test_what_stands_in_a_cell_is_no_markup() -> None:
    table = tandem.Table({"<b>": np.array([1.0])}, {"<b>": "<i>"})
    assert "<b>" not in table._repr_html_().replace("<body>", "") and "&lt;b&gt; (&lt;i&gt;)" in table._repr_html_()


def test_models_and_batches_show_what_they_are_made_of() -> None:
    mass = tandem.load_machine("mass_spring")
    assert "stiffness" in mass._repr_html_() and "where the hand holds the spring" in mass._repr_html_()
    assert "mass = 0.5 kg" in repr(mass.parameters)
    with tandem.batch("mass_spring", 3) as copies:
        copies.step(steps=4)
        assert "3 copies, 4 steps of 5 ms made, 0 diverged" in repr(copies) and "handle" in copies._repr_html_()


def test_a_name_that_is_none_is_a_key_error_with_the_nearest(made: tandem.Table) -> None:
    assert "positoin" not in made and made.get("positoin") is None
    with pytest.raises(KeyError) as caught:
        made["positoin"]
    assert isinstance(caught.value, tandem.UnknownName) and isinstance(caught.value, tandem.TandemError)
    assert str(caught.value) == "positoin: no column; did you mean position?"


def test_a_plot_is_saved_as_a_page_or_a_picture(made: tandem.Table, tmp_path: Path) -> None:
    plot = made.plot("position", "velocity")
    page = plot.save(tmp_path / "a.html").read_text()
    assert "position, m" in page and "velocity, m/s" in page
    assert plot.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert plot._repr_html_().startswith("<iframe srcdoc=") and "position, m" in plot._repr_html_()
    with pytest.raises(ConfigError, match=r"saved as \.html or \.png"):
        plot.save(tmp_path / "a.pdf")
    with pytest.raises(tandem.UnknownName, match="did you mean position"):
        made.plot("positions")


def test_further_files_of_a_machine_are_given_by_name(tmp_path: Path) -> None:
    flat = tandem.load_machine("vehicles/buggy")
    bumpy = tandem.load_machine("vehicles/buggy", files={"road": "roads/bump"})
    assert len(flat.machine.tables.floats) != len(bumpy.machine.tables.floats)
    with pytest.raises(ConfigError, match="reads no further files"):
        tandem.load_machine("mass_spring", files={"road": "roads/bump"})
    with pytest.raises(ConfigError, match=r"nothing\.toml: no such file"):
        tandem.load_machine("vehicles/buggy", files={"road": tmp_path / "nothing.toml"})
