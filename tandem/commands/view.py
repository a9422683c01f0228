"""`tandem view`: the page over a recorded run, or over two; without one, over the run that is going on.

What a record holds are blocks and outputs. The states that a scene is drawn from are made again by an exact replay, so
the page shows what the loop computed on board, not what a viewer makes of it. Where that cannot be (a record that
begins in the middle, or other channels), it shows the outputs alone, and reports that.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sync.errors import ConfigError
from sync.process.threads import set_by_signals
from sync.visible import visible
from tandem.console.config_argument import DEFAULT
from tandem.console.help_text import takes_only
from tandem.console.shipped_configs import find_config
from tandem.console.terminal import Overrides, Runs, TokenFile, compiled, errors, progress, report, run_folder
from tandem.records.feed import record_feed

if TYPE_CHECKING:
    from sync.config.config import View
    from tandem.records.replay import Options
    from tandem.view.data_source import RecordData


def _options(mode: str, delay_ms: float, config: Path | None, overrides: list[str] | None) -> "Options":
    from tandem.records.replay import Options

    return Options(mode, delay_ms, config=config, overrides=list(overrides or []))


def serve(where: "View", feed: "RecordData", other: "RecordData | None", token: str, opened: bool) -> None:
    """The page of a record, until Ctrl-C."""
    from tandem.view.address import announced
    from tandem.view.process import Page

    stop = _stop_signal()
    page = Page(where, feed, other, _say, token)
    try:
        with announced(page.address, _say, opened):
            page.run(stop)
    finally:
        page.close()
        feed.close()


def _stop_signal() -> threading.Event:
    stop = threading.Event()
    set_by_signals(stop, signal.SIGINT, signal.SIGTERM)
    return stop


def _say(text: str) -> None:
    print(f"view: {visible(text)}", file=sys.stderr, flush=True)


def view(
    context: typer.Context,
    what: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN OTHER CONFIG",
            help="RUN: a run's folder or file; a folder of runs means its latest. OTHER: a second one, drawn beside it."
            " CONFIG: of the run that is going on (default: drive), or another than the recorded one; a TOML file or a"
            " name in configs/. A mechanism (.toml) alone runs on its page.",
        ),
    ] = None,
    against: Annotated[
        Literal["ideal"] | None, typer.Option(help="The same run without transport, drawn beside it.")
    ] = None,
    mode: Annotated[
        Literal["exact", "ideal"], typer.Option(help="Of RUN. exact: as it was. ideal: without transport.")
    ] = "exact",
    delay_ms: Annotated[float, typer.Option(min=0, help="Of what is ideal: blocks are there so much later.")] = 0.0,
    overrides: Overrides = None,
    host: Annotated[str | None, typer.Option(help="Address to serve at. Default: the configuration's.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Exactly this one; 0: any. Default: the first free from 8790.")
    ] = None,
    token_file: TokenFile = None,
    opened: Annotated[bool, typer.Option("--open", help="Open it in the browser, too.")] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Show a recorded run on a page: time can be moved; or two runs over each other; or the run that is going on.

    A mechanism runs on its page, and can be held, pushed and changed by hand; its record has what was done.
    """
    from sync.config.config import View
    from sync.config.toml import check, with_overrides
    from sync.files.token import page_token

    with errors():
        token = page_token(token_file)
        run, other, config = _named(what or [])
        page = ("what", "host", "port", "token_file", "opened")
        if run is None:
            file = config or DEFAULT
            if is_mechanism(file):
                takes_only(context, f"{file} is a mechanism, which runs as its file says", *page, "runs")
                _mechanism(file, (host, port), token, opened, runs)
            else:
                takes_only(context, "it is for a recorded run, and none is named", *page, "overrides")
                _live(file, overrides, (host, port), token, opened)
            return
        takes_only(
            context, "a recorded run is shown, and nothing recorded", *page, "against", "mode", "delay_ms", "overrides"
        )
        if other is not None and against:
            raise ConfigError("--against: is for one run; give either a second one or --against ideal")
        if delay_ms and mode == "exact" and not against:
            raise ConfigError(f"--delay-ms {delay_ms:g}: needs --mode ideal or --against ideal")
        from sync.record.reader import find

        for named in filter(None, (run, other)):
            find(named)  # a run that is not there is reported before anything is compiled
        with compiled("replay", "tandem.records.replay"):
            import tandem.records.replay  # noqa: F401
        with progress("view") as update:
            feed = record_feed(
                run, _options(mode, 0.0 if against else delay_ms, config, overrides), _say, update
            )  # fmt: skip
            second = None
            if other is not None:
                second = record_feed(other, _options("exact", 0.0, config, overrides), _say, update)
            elif against:
                second = record_feed(
                    run, _options(against, delay_ms, config, overrides), _say, update, report_losses=False
                )
                second.title = f"{delay_ms:g} ms of delay" if delay_ms else "ideal"
        # not those of the record: its author does not decide who may open the page here
        settings = with_overrides({}, [o for o in overrides or [] if o.startswith("view.")]).get("view", {})
        serve(_where(check(View, settings, "--set", "view"), (host, port)), feed, second, token, opened)


def _named(words: list[Path]) -> tuple[Path | None, Path | None, Path | None]:
    """Which run, which other one, which configuration: that is what ends in .toml, or is no file and has a name in
    configs/."""
    found = []
    for word in words:
        try:
            found.append(word if word.is_dir() else find_config(word))
        except ConfigError:  # a run that is not there; reading it says so
            found.append(word)
    configs = [word for word in found if word.suffix == ".toml"]
    runs = [word for word in found if word.suffix != ".toml"]
    if len(configs) > 1 or len(runs) > 2:
        shown = " ".join(str(word) for word in words)
        raise ConfigError(f"{shown}: at most two runs and one configuration can be shown")
    return next(iter(runs), None), next(iter(runs[1:]), None), next(iter(configs), None)


def is_mechanism(file: Path) -> bool:
    """Whether a file describes a mechanism, by the tables it has; a configuration has others."""
    from sync.config.toml import read_toml

    return "bodies" in read_toml(file)


def _mechanism(file: Path, chosen: tuple[Any, Any], token: str, opened: bool, runs: Path) -> None:
    """A mechanism in the hand, until Ctrl-C; then its record."""
    from sync.config.config import View

    with compiled("mechanism", "tandem.mechanism.again"):
        from tandem.mechanism.again import write_in_hand
        from tandem.mechanism.run import prepare
        from tandem.multibody.description.mechanism_file import read_mechanism
        from tandem.view.address import announced
        from tandem.view.listen import close_page, open_page
        from tandem.view.mechanism_page import MechanismData, MechanismPage
        from tandem.view.rig import Rig, with_hands
    described = read_mechanism(file)
    with_hands(described.mechanism)
    if described.file.run.formulation == "relative":
        _say(f'{file}: run.formulation = "relative": on a page a mechanism moves in natural coordinates, by I3AL')
    described, state = prepare(described)
    where = _where(View(), chosen)
    server, _, address = open_page(where, described.file.name, token)
    stop = _stop_signal()
    try:
        rig = Rig(state)
        workshop = MechanismPage(server, MechanismData(described.file.title or described.file.name, rig))
        with announced(address, _say, opened):
            workshop.run(stop, where.rate_hz)
    finally:
        close_page(server)
    if rig.steps:
        folder = run_folder(runs, described.file.name)
        report(folder, lambda place: write_in_hand(place, described, rig), "record")


def _live(file: Path, overrides: list[str] | None, chosen: tuple[Any, Any], token: str, opened: bool) -> None:
    """The run of this name on this host, also while it has not begun: the very service that a run starts."""
    from sync.compile.jit import compiling
    from sync.config.config import load
    from sync.process.service import Reporter

    class Quiet(Reporter):
        def status(self, content: dict[str, Any]) -> None: ...

    config = load(file, overrides or [])
    config = config.model_copy(update={"view": _where(config.view, chosen)})
    with compiling("view"):
        from tandem.view.process import live_feed, serve_live
    feed = live_feed(config, file)
    if not feed.alive()["sim"]:
        _say(f"no run named {config.name!r} is going on here yet: the page shows it as soon as it begins")
    stop = _stop_signal()
    serve_live(config, feed, stop, Quiet("view", False, stop), token, opened)


def _where(view: "View", chosen: tuple[str | None, int | None]) -> "View":
    """A page's address, with what the command line says of it."""
    from sync.config.config import View
    from sync.config.toml import check

    named = zip(("host", "port"), chosen, strict=True)
    settings = view.model_dump() | {key: value for key, value in named if value is not None}
    return check(View, settings, "the command line", "view")
