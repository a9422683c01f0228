"""The registry of promises: every entry can be measured as it says; table, page and exit code say what came out."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from verify import ROOT, __main__, measure, registry, show
from verify.measure import NotHere, Printed, Result, Row, at_least, at_most, equal, figure, holds
from verify.promises import ALL, PROMISES
from verify.registry import MISSING, Promise, options_of
from verify.run import Outcome, measured, results

IN_A_MOMENT = ("golden", "reality-rav4", "schedules")  # quick ones that are measured here


def test_no_two_have_one_name() -> None:
    assert len(PROMISES) == len(ALL)


@pytest.mark.parametrize("name", PROMISES)
def test_an_entry_says_what_it_promises_takes_and_needs(name: str) -> None:
    promise = PROMISES[name]
    assert promise.promised.endswith(".") and not promise.promised[0].islower() and promise.minutes > 0.0
    for need in promise.needs:
        assert need in MISSING or need.split(" ", 1)[0] in ("package", "program"), need
    if promise.missing():
        return  # its module may need what is missing
    own = options_of(promise.function)
    assert promise.preset.keys() <= own.keys()
    for selection in (promise.quick, promise.bench, promise.drill):
        for option, value in (selection or {}).items():
            found = promise.options[option]
            words = [str(each) for each in value] if isinstance(value, tuple) else [] if value is True else [str(value)]
            assert found.parse(words) == value


@pytest.mark.parametrize("name", IN_A_MOMENT)
def test_a_quick_one_holds(name: str) -> None:
    promise = PROMISES[name]
    found = list(results(promise, {**(promise.quick or {}), **({"processes": 1} if name == "schedules" else {})}))
    assert found and not [row for row in found if isinstance(row, Row) and row.held is False]


def test_make_measures_selections_that_have_members() -> None:
    text = (ROOT / "Makefile").read_text()
    for kind in ("bench", "drill"):
        assert f"-m verify --{kind}" in text and any(getattr(p, kind) is not None for p in PROMISES.values())


# ---- rows and options ------------------------------------------------------------------------------------------------


def test_a_row_is_judged_by_its_limit() -> None:
    rows = (at_most("a", 1.0, 2.0), at_least("b", 1.0, 2.0), equal("c", 3, 3), holds("d", False), figure("e", 1.0))
    assert [row.verdict for row in rows] == ["held", "MISSED", "held", "MISSED", ""]
    assert at_most("not a number", float("nan"), 1.0).held is False
    assert (rows[0].limit, rows[1].limit, rows[2].shown) == ("<= 2", ">= 2", "3")


def sample(
    *,
    count: Annotated[int, "of something"] = 3,
    kinds: tuple[Literal["one", "two"], ...] = ("one",),
    folder: Path | None = None,
    loud: bool = False,
) -> Iterator[Result]:
    if count == 0:
        raise NotHere("nothing to count")
    if count == 13:
        raise KeyError("a bug")
    yield at_most("count", count, 3)
    yield Printed(f"{' '.join(kinds)} {folder} {loud}")


def required(*, folder: Path) -> Iterator[Result]:
    yield figure("folder", str(folder))


def test_options_are_those_of_the_function() -> None:
    options = options_of(sample)
    assert options["count"].parse(["5"]) == 5 and options["count"].help == "of something"
    assert options["kinds"].parse(["two", "one"]) == ("two", "one")
    assert options["folder"].parse(["x"]) == (Path.cwd() / "x") and options["loud"].parse([]) is True
    for name, words in (("count", ["a"]), ("count", []), ("count", ["1", "2"]), ("kinds", ["three"]), ("loud", ["1"])):
        with pytest.raises(ValueError, match=f"--{name}"):
            options[name].parse(words)


# ---- the whole way ---------------------------------------------------------------------------------------------------


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> dict[str, Promise]:
    """A registry of two, measured in this process."""
    made = {
        "sample": Promise("sample", "Counts.", "", 1.0, quick={"count": 1}, bench={}),
        "required": Promise("required", "Has a folder.", "", 1.0),
    }
    functions = {"sample": sample, "required": required}
    monkeypatch.setattr(registry.Promise, "function", property(lambda self: functions[self.name]))
    monkeypatch.setattr(__main__, "PROMISES", made)

    def here(promise: Promise, settings: dict[str, Any], limit_s: float | None) -> Outcome:
        found = Outcome(promise, settings)
        try:
            for result in results(promise, settings):
                found.add(result)
        except NotHere as why:
            found.not_here = str(why)
        return found

    monkeypatch.setattr(__main__, "measured", here)
    return made


@pytest.mark.parametrize(
    "words, code, text",
    [
        ("sample", 0, "1 held; 0 missed"),
        ("sample --count 4", 1, "1 missed (sample)"),
        ("sample --count 0", 0, "1 could not be measured here (sample: nothing to count)"),
        ("--all", 0, "(required: needs --folder)"),
        ("--quick", 0, "1 held; 0 missed"),
        ("--bench --count 5", 1, "1 missed (sample)"),
        ("samp*", 0, "1 held"),
    ],
)
def test_a_selection_ends_with_a_table_and_a_code(
    two: dict[str, Promise], capsys: pytest.CaptureFixture[str], words: str, code: int, text: str
) -> None:
    assert __main__.main(words.split()) == code
    assert text in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "words, text",
    [
        ("none", "no promise none"),
        ("sample --cuont 3", "--cuont: no option of sample; there are count"),
        ("sample --count x", "sample: --count x: not int"),
        ("--count 3", "nothing is chosen"),
        ("sample --limit", "--limit takes one value"),
    ],
)
def test_wrong_usage_is_one_sentence(
    two: dict[str, Promise], capsys: pytest.CaptureFixture[str], words: str, text: str
) -> None:
    assert __main__.main(words.split()) == 2
    said = capsys.readouterr().err
    assert text in said and said.count("\n") == 1


def test_page_and_json_have_machine_rows_and_text(two: dict[str, Promise], tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", tmp_path / "found.json"
    assert __main__.main(["sample", "--count", "4", "--page", str(page), "--json", str(file), "--title", "Found"]) == 1
    text = page.read_text()
    assert text.startswith("# Found\n") and "| utc | 20" in text and "| cores | " in text
    assert "| count | 4 |  | &lt;= 3 | MISSED |" in text and "```text\none None False\n```" in text
    assert "`python -m verify sample --count 4`: **MISSED**" in text
    assert not (ROOT / ".git").exists() or re.search(r"\| commit \| [0-9a-f]{7,}", text)
    page.write_text(f"# Mine\n\nWhy it is so.\n\n{show.MEASURED}\n\nold figures\n")
    assert __main__.main(["sample", "--count", "4", "--page", str(page), "--title", "Found"]) == 1
    again = page.read_text()
    assert again.startswith(f"# Mine\n\nWhy it is so.\n\n{show.MEASURED}\n\n0 held") and "old figures" not in again
    (found,) = json.loads(file.read_text())["promises"]
    assert found["verdict"] == "MISSED" and found["rows"][0]["value"] == 4.0


def test_a_selection_that_was_ended_goes_on_where_it_was(two: dict[str, Promise], tmp_path: Path) -> None:
    page, parts = tmp_path / "page.md", tmp_path / "parts"
    words = ["--all", "--parts", str(parts), "--brief", "--page", str(page)]
    assert __main__.main(["sample", "--parts", str(parts)]) == 0
    made = json.loads((parts / "sample.json").read_text())
    made["machine"]["commit"] = "0123456789abcdef"
    made["promises"][0]["rows"][0] |= {"value": 7.0, "held": False}  # as if it had come out otherwise
    (parts / "sample.json").write_text(json.dumps(made))
    assert __main__.main(words) == 1
    text = page.read_text()
    assert "| sample | MISSED | count 7 (&lt;= 3) |" in text and "0123456789ab, " in text
    assert "| required | not here | needs --folder |  |" in text and "## " not in text
    assert __main__.main([*words, "--count", "2"]) == 0  # other settings are measured
    assert "| sample | held | count 2 (&lt;= 3) |" in page.read_text()


def test_without_words_it_lists_all(two: dict[str, Promise], capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main([]) == 0 and __main__.main(["sample", "--help"]) == 0
    said = capsys.readouterr().out
    assert said.count("Counts.") == 2 and "Has a folder." in said
    assert "--count INT  of something (default: 3)" in said and "--quick: --count 1" in said


def test_a_crash_is_a_row_and_what_was_found_before_stays() -> None:
    broken = Promise("golden", "A name that is there.", "tree.golden:golden", 0.1)
    found = measured(broken, {"names": ("mechanism",), "no_such_option": 1})
    assert found.missed and found.rows[-1].quantity == "the measurement ends"
    assert show.summary([found]).startswith("0 held; 1 missed (golden)")
    assert measure.number(1e-9) == "1e-09"
