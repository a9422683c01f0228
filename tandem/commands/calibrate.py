"""The command `tandem calibrate`: options, the DAQ, the dialogue, the fragment."""

import contextlib
import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sync.errors import ConfigError
from tandem.console.config_argument import NeededConfig
from tandem.console.help_text import takes_only
from tandem.console.terminal import AsJson, Overrides, errors, output

if TYPE_CHECKING:
    from sync.config.config import Config
    from tandem.calibrate.daq import LoneDaq
    from tandem.calibrate.person import Screen
    from tandem.calibrate.readings import Readings
    from tandem.calibrate.values import Calibration

_STARTING = "starting the DAQ (the first time, compiling)"


def calibrate(
    context: typer.Context,
    config: NeededConfig,
    rows: Annotated[
        list[str] | None,
        typer.Option("--row", help="A row of `inputs` that has a scale; repeatable. Default: all of them."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The fragment to write. Default: NAME_calibration.toml beside the file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a fragment that is there.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only show what is read, until Ctrl-C.")] = False,
    counter_zeros: Annotated[
        bool,
        typer.Option("--counter-zeros", help="Write zeros of incremental encoders too: good for like starts only."),
    ] = False,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Find zero, scale and sign of the rows of `inputs`, and write them as a fragment of a configuration.

    Exit codes: 0 written, or --show ended; 1 ended before, nothing is written; 2 a file or an answer is wrong; 7 the
    device or its software is missing.
    """
    with errors():
        from tandem.calibrate.fragment import check_place, default_place

        place = out or default_place(config)
        if show:
            takes_only(context, "--show writes nothing", "config", "show", "overrides")
        else:
            check_place(place, force)
        done = _run(config, list(overrides or []), rows or [], place, force, show, counter_zeros, as_json)
    if not done:
        print("tandem: ended before everything was captured; nothing is written", file=sys.stderr)
        raise typer.Exit(1)


def _wanted(requested: list[str], there: Iterable[str], file: Path) -> list[str]:
    names = list(there)
    if not names:
        raise ConfigError(
            f"{file}: inputs: no row is affine or an encoder of a channel, a pair of Hall sensors or a voice coil;"
            " there is nothing to calibrate"
        )
    for name in requested:
        if name not in names:
            raise ConfigError(f"--row {name}: must be one of {', '.join(names)}")
    return [name for name in names if not requested or name in requested]


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _run(
    file: Path, overrides: list[str], requested: list[str], out: Path, force: bool, show: bool, counter_zeros: bool,
    as_json: bool,
) -> bool:  # fmt: skip
    """Whether it came to its end."""
    from sync.compile.jit import compiling
    from sync.config.config import load
    from tandem.calibrate.person import Ended, Keys, Screen
    from tandem.calibrate.values import calibratable

    config = load(file, overrides)
    configured = calibratable(config.inputs)
    wanted = _wanted(requested, configured, file)
    # Ctrl-C too: a shell that starts it in the background may have set it to be ignored
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Screen() as screen, Keys() as keys:
            screen.live(_STARTING)
            with compiling("calibrate"):
                from daq_service.devices import require
                from tandem.calibrate.daq import LoneDaq, alone
                from tandem.calibrate.dialogue import Dialogue, Quit
                from tandem.calibrate.values import Calibration

                require(config, file)
            own = [*overrides, *alone(config.name)]
            with contextlib.closing(LoneDaq(file, own, screen.show)) as daq:
                readings = _attached(daq, load(file, own), screen)
                counting = {c.name for c in config.daq.channels if c.counter_bits is not None}
                counters = frozenset(name for name, row in configured.items() if set(row.channels) & counting)
                calibration = Calibration(configured, counters, counter_zeros)
                if show:
                    _show(daq, readings, calibration, keys, screen)
                    return True
                try:
                    Dialogue(readings, calibration, wanted, keys, screen, daq.watch, daq.implausible).run()
                except (Quit, Ended):
                    return False
    except KeyboardInterrupt:
        return show
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _write(calibration, config, file, overrides, out, force, as_json)
    return True


def _attached(daq: "LoneDaq", config: "Config", screen: "Screen") -> "Readings":
    from sync.clock import now_ns, sleep_until
    from tandem.calibrate.readings import Readings

    while (ring := daq.ring(config)) is None:
        screen.live(_STARTING)
        sleep_until(now_ns() + 50_000_000)
    return Readings(config, ring)


def _show(daq: "LoneDaq", readings: "Readings", calibration: "Calibration", keys: Any, screen: "Screen") -> None:
    from sync.clock import now_ns, sleep_until
    from tandem.calibrate.dialogue import POLL_S, live_line

    screen.ask("Ctrl-C ends it.")
    while True:
        daq.watch()
        readings.poll()
        screen.live(live_line(readings, calibration))
        if not keys.at_once:
            sleep_until(now_ns() + round(POLL_S * 1e9))  # a pipe has no input here
        elif "q" in keys.typed(POLL_S):
            return


def _write(
    calibration: "Calibration", config: "Config", file: Path, overrides: list[str], out: Path, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    from sync.record.utc import wall_clock
    from tandem.calibrate import fragment
    from tandem.calibrate.dialogue import Step, words

    ends = {f"{c} {kind}": words(Step(c, kind), calibration) for c in calibration.done for kind in ("zero", "full")}
    content = fragment.text(calibration, config, file, out, wall_clock(), ends)
    fragment.write(content, config, file, overrides, out, force)
    table, found = Table("inputs", "was", "is"), []
    for name, settings in calibration.settings().items():
        was = config.inputs[name].model_dump()
        for key, value in settings.items():
            found.append({"input": f"{name}.{key}", "was": was[key], "is": value})
            table.add_row(f"{name}.{key}", fragment.number(was[key]), fragment.number(value))
    if as_json:
        print(json.dumps({"calibration": str(out), "inputs": found}), flush=True)
    else:
        output().print(table)
    included = json.dumps(fragment.include(config, file, out))
    print(f"calibration: {out}", file=sys.stderr)
    if (against := fragment.objection(config, file, overrides, out)) is not None:
        print(f"tandem: no run will start with it before this is put right: {against}", file=sys.stderr)
    print(f"use it: include = {included} in {file}, or --set 'include={included}'", file=sys.stderr)
