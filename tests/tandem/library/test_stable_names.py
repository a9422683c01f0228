"""Names that others build on keep their place, arguments, fields and defaults (tandem/library/stable.py).

python -m tests.tandem.library.test_stable_names     write stable_names.txt again, where a change is wanted
"""

import ast
from pathlib import Path

import pytest

import tandem
from tandem.library import answers, stable
from tandem.live.figures import HISTOGRAMS

KEPT = Path(__file__).with_name("stable_names.txt")


def test_what_is_stable_looks_as_it_did() -> None:
    """A line that is missing or other is a change that breaks somebody's program; a new one is a promise."""
    assert stable.lines() == KEPT.read_text().splitlines()


def test_all_that_is_public_is_stable_with_a_docstring_and_types() -> None:
    every = {each.name.removeprefix("tandem."): each for each in stable.library()}
    assert set(every) == set(tandem.__all__) - {"__version__"}
    assert [name for name, each in every.items() if not each.about] == []
    untyped = [f"{name}.{line}" for name, each in every.items() for line in each.members if _untyped(line)]
    assert untyped == []
    shown = [line for name, each in every.items() for line in (each.text, *each.members)]
    assert [line for line in shown if "Any" in line.replace("'", "").split("->")[-1] or ": Any" in line] == []


def _untyped(line: str) -> bool:
    """A field without a type that its value does not say; a method without a result."""
    return "->" not in line if "(" in line.partition(":")[0] else ":" not in line and "= " not in line


@pytest.mark.parametrize("module", stable.CONTRACTS)
def test_contracts_say_what_their_parts_are(module: str) -> None:
    assert all(each.text for each in stable.contracts()[module])


def test_a_change_of_a_signature_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of an argument, of a default, of a field that is gone: in a copy of the sources."""
    kept = stable.lines()
    for file, one, other in (
        ("tandem/offline/model.py", "steps: int | None = None, step_s: float = 0.005", "steps: int | None = None"),
        ("sim_service/contract/machine.py", "    live: bool = True", "    live: bool = False"),
        ("daq_service/devices/contract.py", "wait_ns: int", "wait_s: float"),
    ):
        _changed_copy(tmp_path, file, one, other)
        monkeypatch.setattr(stable, "ROOT", tmp_path)
        stable._tree.cache_clear()
        assert stable.lines() != kept, file
    monkeypatch.undo()
    stable._tree.cache_clear()
    assert stable.lines() == kept


def _changed_copy(place: Path, file: str, one: str, other: str) -> None:
    for package in ("tandem", "sim_service", "daq_service", "sync"):
        if not (place / package).is_symlink() and not (place / package).exists():
            for source in (stable.ROOT / package).rglob("*.py"):
                copy = place / source.relative_to(stable.ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.symlink_to(source)
    text = (place / file).read_text()
    assert one in text
    (place / file).unlink()
    (place / file).write_text(text.replace(one, other))


def test_answers_have_the_keys_that_they_are_typed_with() -> None:
    run = tandem.open_run(stable.ROOT / "tests" / "golden" / "stale.mcap")
    assert set(run.info) == set(answers.RecordInfo.__annotations__)
    _, figures = run.replay()
    assert answers.ReplayFigures.__required_keys__ <= set(figures) <= set(answers.ReplayFigures.__annotations__)
    (made,) = [
        node for node in ast.walk(stable._find("tandem.live.figures", "figures")) if isinstance(node, ast.Return)
    ]
    assert isinstance(made.value, ast.Dict)
    keys = {ast.literal_eval(key) for key in made.value.keys if key is not None} | set(HISTOGRAMS)
    assert keys | {"truth", "exit_code"} == set(answers.RunResult.__annotations__)


if __name__ == "__main__":
    KEPT.write_text("\n".join(stable.lines()) + "\n")
