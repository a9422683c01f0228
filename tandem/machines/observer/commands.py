"""The command `tandem observe`: a twin experiment from a file, its figures and a page."""

from pathlib import Path
from typing import Annotated

import typer

from tandem.console.help_text import Brought
from tandem.console.present import give
from tandem.console.shipped_configs import CONFIGS
from tandem.console.terminal import AsJson, Runs, errors, progress, run_folder

DEFAULT = CONFIGS / "observers" / "tilting.toml"


# long: most of it are options and their help
def observe(
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY",
            help="Twin experiment (machine, truth, sensors, filter), or a recorded run of an observer.",
            show_default="configs/observers/tilting.toml",
        ),
    ] = DEFAULT,
    forms: Annotated[
        str | None,
        typer.Option(
            show_default="exact,constant",
            help="Filters to run, with commas: exact (linearised), constant (transition without the machine), "
            "unscented (some N steps a step: minutes), smoothed (all readings for every instant).",
        ),
    ] = None,
    true_model: Annotated[
        bool,
        typer.Option(
            "--true-model",
            help="The truth has the filter's own parameters and moves at random as the filter believes: normalised "
            "errors should then lie in their band.",
        ),
    ] = False,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Runs. Default: the file's.")] = None,
    tuning: Annotated[
        list[Path] | None,
        typer.Option(
            help="Of a recorded run: an observer's machine file to run over its readings; may be repeated. Default: "
            "the record's own alone."
        ),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Of each run. Default: the file's.")] = None,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="Of a recorded run: the record of what was observed, whose outputs of the same names are the truth. "
            "Default: the one beside the run, if there is one. Of an imported record: what was measured and is no "
            "reading, such as sideslip. Default: all of that."
        ),
    ] = None,
    from_s: Annotated[
        float | None,
        typer.Option("--from", min=0.0, help="Of an imported record: from this second on. Default: its first."),
    ] = None,
    to_s: Annotated[
        float | None, typer.Option("--to", min=0.0, help="Of an imported record: to this second. Default: its last.")
    ] = None,
    smooth: Annotated[
        bool, typer.Option("--smooth/--no-smooth", help="Of a recorded run: smooth it (Rauch, Tung, Striebel) too.")
    ] = True,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """A filter beside a truth that it sees through sensors alone: errors, consistency, counters of every sensor.

    Truth and filter are the same machine, with parameters of their own. Of a recorded run: its filter again, to the
    bit, and others (--tuning) over the same readings, each smoothed as well. Exit codes: 0 everything promised holds;
    1 something does not; 2 a file, a name or a value is wrong.
    """
    from sync.compile import build
    from sync.compile.jit import compiling
    from sync.errors import ConfigError
    from tandem.machines.observer.studies.recorded import is_run

    if is_run(study):
        of_study = {"--forms": forms, "--true-model": true_model or None, "--count": count, "--seconds": seconds}
        with errors():
            for option, value in of_study.items():
                if value is not None:
                    shown_value = "" if value is True else f" {value}"
                    raise ConfigError(
                        f"{option}{shown_value}: {study} is a recorded run; only a twin experiment has it"
                    )
        span = (from_s or 0.0, float("inf") if to_s is None else to_s)
        _over_record(study, tuning or [], truth, smooth, span, as_json, runs)
        return
    with errors():
        only = (("--tuning", tuning[0] if tuning else None), ("--truth", truth), ("--from", from_s), ("--to", to_s))
        for option, setting in only:
            if setting is not None:
                raise ConfigError(f"{option} {setting}: {study} is a twin experiment; only a recorded run has it")
        if not smooth:
            raise ConfigError(f"--no-smooth: {study} is a twin experiment; leave `smoothed` out of --forms")
        forms = "exact,constant" if forms is None else forms
        build.ensure("observe", "tandem.estimation.ekf", "tandem.estimation.experiment")
        with compiling("observe"):
            from tandem.machines.observer.studies import shown, twin
            from tandem.machines.observer.studies.settings import TruthOf, read_study
        named = [form.strip() for form in forms.split(",")]
        for form in named:
            if form not in twin.FORMS:
                raise ConfigError(f"--forms {forms}: {form!r}: must be one of {', '.join(twin.FORMS)}")
        changed = {"runs": count, "seconds": seconds, "truth": TruthOf(noise=True) if true_model else None}
        settings = read_study(study).model_copy(update={k: v for k, v in changed.items() if v is not None})
        with compiling("observed"), progress("observe") as update:
            setup = twin.prepare(settings, study)
            outcomes = twin.run(setup, named, update)
        found = shown.figures(setup, outcomes)
    give(shown.report(setup, outcomes, found), as_json, run_folder(runs, "observe"))


def _over_record(
    run: Path, tunings: list[Path], truth: Path | None, smooth: bool, span: tuple[float, float], as_json: bool,
    runs: Path,
) -> None:  # fmt: skip
    from sync.compile.jit import compiling
    from tandem.machines.observer.studies import recorded
    from tandem.records.against_truth import against_truth, watched_truth

    with errors(), compiling("observe"), progress("observe") as update:
        found = recorded.observe_record(run, tunings, update, *span)
        if recorded.is_imported(found):
            known = recorded.measured_truth(found, "" if truth is None else str(truth))
        else:
            known = recorded.true_columns(truth, found) if truth is not None else {}
        shown = recorded.figures(found)
        of_errors = known or watched_truth(found[recorded.AS_RECORDED].run.path)
        own = known and not recorded.is_imported(found)
        watch = recorded.watched_names(found, known) if own else list(of_errors)
        passes = recorded.smooth_all(found, tunings, update, watch) if smooth else {}
        recorded.add_smoothed(shown, found, passes, of_errors)
        # of a run beside a "real" machine: what was estimated on board against that
        beside = against_truth(found[recorded.AS_RECORDED].run.path)
    if beside:
        shown[recorded.AS_RECORDED]["truth"] = beside
    give(recorded.report(found, shown, passes, of_errors), as_json, run_folder(runs, "observe"))


COMMANDS = (Brought("observe", observe),)
