"""The commands of many runs: options, progress, tables, page."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tandem.terminal import AsJson, errors, output, progress, report

Workers = Annotated[int, typer.Option(min=0, max=4096, help="Runs at a time; 0: one a core.", show_default="0")]
Cluster = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Of a Dask scheduler, such as tcp://host:8786, instead of this machine.")
]


def sweep(
    study: Annotated[Path, typer.Argument(help="TOML file: machine, manoeuvre, parameters, figures of merit.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the table and of what is done. Default: runs/sweep_NAME.")
    ] = None,
    workers: Workers = 0,
    engine: Annotated[
        str, typer.Option(help="threads, processes, or auto: processes where a machine is made anew for every run.")
    ] = "auto",
    cluster: Cluster = "",
    as_json: AsJson = False,
) -> None:
    """Run a machine over a grid, a list or samples of its parameters: one Parquet table, and a report.

    Runs that fail are rows. Ctrl-C keeps what is done, and so does a crash: the same command goes on.
    """
    from sync import build
    from sync.jit import compiling

    with errors():
        build.ensure("everything")
        with compiling("sweep"):
            from tandem.ensembles import report as pages
            from tandem.ensembles.sweep import sweep as run_sweep
            from tandem.reports.html.page import json_ready
            from tandem.reports.html.plain import write_plain
        with progress("sweep") as update:
            swept = run_sweep(study, out, workers, engine, cluster, update)
        summary = swept.summary()
        if as_json:
            print(json.dumps(json_ready(summary)), flush=True)
        else:
            pages.print_sweep(output(), swept)
        title = f"tandem sweep {swept.study.name}"
        report(
            swept.folder,
            lambda place: write_plain(place, title, pages.headline(swept), pages.page_sections(swept), summary)[0],
        )
