"""`tandem tyre ...`: what a property file says, two beside each other, and a file from the rows of a rig."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sync.errors import ConfigError
from sync.files.private import make_folder, rewrite
from tandem.console.help_text import takes_only
from tandem.console.present import give
from tandem.console.terminal import AsJson, compiled, errors, parameters, progress

if TYPE_CHECKING:
    from tandem.machines.car.tyres.tir import Tir

Mapping = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="NAME=COLUMN:UNIT",
        help="A column, its unit, and - before it to turn it round: alpha=-SA:deg. Default: by usual names.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse what is not used, instead of listing it.")]
Rows = Annotated[Path, typer.Argument(metavar="ROWS", help="CSV or MAT file of a tyre test rig.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A number of the file that is not fitted, such as FNOMIN=3000."),
]


def _compiled() -> None:

    with compiled("tyre", "tandem.machines.car.studies.tyre.figures"):
        from tandem.machines.car.studies.tyre import figures  # noqa: F401


def _read(path: Path, strict: bool) -> "Tir":
    from tandem.machines.car.tyres.tir import read_tir

    return read_tir(path, tolerant=not strict)


def tyre_show(
    file: Annotated[Path, typer.Argument(metavar="TYRE", help="Tyre property file.")],
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """What a tyre property file says: version, what of it is not used, friction, stiffness, relaxation."""
    with errors():
        tir = _read(file, strict)
        _compiled()
        from tandem.machines.car.studies.tyre import shown
        from tandem.machines.car.studies.tyre.figures import key_figures

        found = key_figures(tir)
    give(shown.report_tyres("show", [found], found), as_json)


def tyre_compare(
    context: typer.Context,
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="Tyre property file.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another one.")],
    rows: Annotated[
        Path | None, typer.Argument(metavar="ROWS", help="CSV or MAT file of a tyre test rig. Default: none.")
    ] = None,
    mapping: Mapping = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Two tyres beside each other; with rows of a rig, how far each is from them by load, pressure and camber."""
    with errors():
        if rows is None:
            takes_only(context, "there are no ROWS", "first", "second", "strict", "as_json")
        tyres = [_read(first, strict), _read(second, strict)]
        _compiled()
        from tandem.machines.car.studies.tyre import shown
        from tandem.machines.car.studies.tyre.figures import against, key_figures
        from tandem.machines.car.studies.tyre.rows import read_rows

        measured = read_rows(rows, mapping or []) if rows is not None else None
        found = [key_figures(tir) for tir in tyres]
        left = [against(tir, measured) for tir in tyres] if measured is not None else []
    names = [path.name for path in (first, second)]
    beside = shown.beside_rows(names, left, measured.remarks) if measured is not None else []
    give(shown.report_tyres("compare", found, {"tyres": found, "left": left}, beside), as_json)


def tyre_fit(
    rows: Rows,
    to: Annotated[Path, typer.Option(metavar="PATH.tir", help="The property file to write.")],
    version: Annotated[Literal["5.2", "6.1"], typer.Option(help="Of the Magic Formula.")] = "6.1",
    mapping: Mapping = None,
    settings: Settings = None,
    weight: Annotated[
        Literal["force", "load"], typer.Option(help="What counts alike: a newton, or a share of the load.")
    ] = "force",
    out: Annotated[Path | None, typer.Option(metavar="PATH.html", help="Write a page with curves.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the Magic Formula to rows of a rig: pure slip, combined slip, moments.

    A tenth of the rows, in blocks of a hundred, is not used and judges the fit.
    """
    with errors():
        coefficients = parameters(settings)
        if to.suffix.lower() != ".tir":
            raise ConfigError(f"--to {to}: must be the name of a property file, such as tyre.tir")
        _compiled()
        from tandem.machines.car.studies.tyre import shown
        from tandem.machines.car.studies.tyre.figures import against
        from tandem.machines.car.studies.tyre.fit import fit
        from tandem.machines.car.studies.tyre.rows import read_rows
        from tandem.machines.car.tyres.tir import parse_tir

        with progress("tyre fit") as update:
            update(f"reading {rows.name}", 0.0)
            measured = read_rows(rows, mapping or [])
            fitted = fit(measured, version, coefficients, 1.0 if weight == "load" else 0.0, update)
        tir = parse_tir(fitted.text, str(to))
        left = against(tir, measured)
        _write(to, "--to", fitted.text)
    give(shown.report_fit(fitted, measured, left, tir, to.name), as_json, page=out)


def _write(path: Path, option: str, text: str) -> None:
    try:
        make_folder(path.parent)
        rewrite(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{option} {path}: cannot be written: {error.strerror}") from None
    print(f"written: {path}", file=sys.stderr)
