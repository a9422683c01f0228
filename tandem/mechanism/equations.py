"""`tandem mechanism FILE --equations LANGUAGE`: the equations of motion of a mechanism as texts to take away."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sync.errors import ConfigError
from sync.files.private import rewrite
from tandem.multibody.code.languages import SUFFIXES, Formula, Language, written_in
from tandem.multibody.description.mechanism_file import Described
from tandem.multibody.natural.errors import AssemblyError, MechanismError
from tandem.multibody.relative.formulas import QUANTITIES, formulas
from tandem.reports.report import Report, Section, Table


@dataclass(frozen=True)
class TakenAway:
    described: Described
    language: Language
    functions: tuple[Formula, ...]
    texts: dict[str, str]  # by the name of their file
    cpu_s: float


def quantities(words: str | None) -> tuple[str, ...]:
    """Of `--with mass,forces`: in the order of the table, each once; all by default."""
    if words is None:
        return tuple(QUANTITIES)
    requested = [word.strip() for word in words.split(",")]
    for word in requested:
        if word not in QUANTITIES:
            raise ConfigError(f"--with {words}: '{word}' is none of {', '.join(QUANTITIES)}")
    return tuple(kind for kind in QUANTITIES if kind in requested)


def take_away(described: Described, language: Language, which: Sequence[str] = tuple(QUANTITIES)) -> TakenAway:
    for name in described.mechanism.impacts:
        raise ConfigError(
            f"{described.path}: --equations {language}: impacts.{name}: has no equation; leave impacts out"
        )
    for name in dict.fromkeys(slip.split(".")[0] for slip in described.mechanism.slips):
        raise ConfigError(
            f"{described.path}: --equations {language}: joints.{name}: holds a velocity, and M a = F has no place for"
            " its force; leave it out"
        )
    then = time.process_time()
    try:
        found = formulas(described.mechanism, described.file.name, which)
        texts = {f"{one.name}{SUFFIXES[language]}": written_in(one, language) for one in found}
    except (MechanismError, AssemblyError) as error:
        raise ConfigError(f"{described.path}: --equations {language}: {error}") from None
    return TakenAway(described, language, found, texts, time.process_time() - then)


def report(taken: TakenAway) -> Report:
    name, operations = taken.described.file.name, [one.operations for one in taken.functions]
    rows = [
        (file, one.meaning, sum(of.values()), of.get("sines and cosines", 0), text.count("\n"))
        for one, of, (file, text) in zip(taken.functions, operations, taken.texts.items(), strict=True)
    ]
    table = Table(("file", "what", "operations", "of these sines and cosines", "lines"), rows)
    data = {
        "name": name, "language": taken.language, "cpu_s": taken.cpu_s,
        "functions": {
            one.name: {
                "operations": of,
                "reads": {a.name: list(a.entries) for a in one.reads},
                "usual": {a.name: list(a.usual) for a in one.reads if a.usual},
                "gives": {a.name: list(a.shape) for a in one.writes},
            }
            for one, of in zip(taken.functions, operations, strict=True)
        },
    }  # fmt: skip
    headline = f"{len(rows)} functions in {taken.language}, written in {taken.cpu_s:.2f} s of processor time."
    return Report(f"Equations of {name}", headline, data, [Section("Functions", [table])])


def write(folder: Path, taken: TakenAway) -> None:
    """Each text is a file of its own."""
    for file, text in taken.texts.items():
        rewrite(folder / file, text.encode())
