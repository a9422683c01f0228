"""One run, for every command that makes one: checked, started, its progress shown, its folder made."""

import contextlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sync.errors import ConfigError, near_names
from tandem.console.compiled import machine_modules, machine_name, machine_names
from tandem.console.terminal import new_run_folder, progress_bar, refuse_place

if TYPE_CHECKING:
    from sync.config.config import Config


def _opened(config: "Config", file: Path) -> Any:
    """The source that a configuration names."""
    from sync.compile.jit import compiling

    with compiling("source"):
        from daq_service.devices import open_device

        return open_device(config, file)


def refuse_early(config: "Config", file: Path) -> None:
    """Raises ConfigError for all errors that can be found without compiled code: in keys and values, missing files.

    A person who mistyped a setting gets the answer before anything is started or compiled; the processes that use the
    rest find its errors before they begin.
    """
    from daq_service import devices
    from sync.config.config import named_files
    from sync.config.toml import read_toml

    devices.refuse_early(config, file)
    for key, name in named_files(config.model_dump()).items():
        if not (place := file.parent / name).exists():
            tried = dict.fromkeys([str(place.absolute()), str(Path.cwd() / name)])
            raise ConfigError(f"{file}: {key} = {name!r}: no such file: {', nor '.join(tried)}{_beside(place)}")
        read_toml(place)
    machine = config.sim.machine
    if "/" not in machine or machine.endswith(".toml"):
        return
    from sim_service.registry import known_machines  # a machine of another package may have this name

    if machine not in (known := known_machines()):
        raise ConfigError(
            f"{file}: sim.machine = {machine!r}: must be one of {', '.join(known)}; or a file:"
            f" the name of a machine's file ends in .toml{_alike(file.parent / machine)}"
        )


def _alike(place: Path) -> str:
    """The file that was meant by one that does not exist: in the working folder, or beside the missing one."""
    if (here := Path(place.name)).is_file():
        return f"; did you mean {here}?"
    for folder in (Path(), place.parent):
        if alike := near_names(place.stem, [each.stem for each in folder.glob("*.toml")], 1):
            return f"; did you mean {folder / alike[0]}.toml?"
    return ""


def _beside(place: Path) -> str:
    near = sorted(each.name for each in place.parent.glob("*.toml"))[:12]
    return _alike(place) or (f"; in {place.parent} there are {', '.join(near)}" if near else "")


def checked_config(file: Path, overrides: list[str]) -> "Config":
    """The configuration, after every check of it that needs no running process. Nothing has started yet."""
    import numpy as np

    from sync.compile.jit import compiling
    from sync.config.config import load

    config = load(file, overrides)
    _opened(config, file)
    with compiling("check"):
        from daq_service.devices import settings_class
        from sim_service.checked import checked_machine, effort_fault
        from tandem.live.supervisor.truth import check_watched

        model, params = checked_machine(config, file)
        if (fault := effort_fault(config, model, str(file))) and not settings_class(config, str(file)).takes_any_effort:
            raise ConfigError(fault)
        check_watched(config, [output.name for output in model.outputs], str(file))
        state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
        model.initial(state, params, model.tables, work)  # its initial state must be found, too
    return config


# what every run compiles before its first step, beside its machine and its device; anything else is compiled by the
# command that needs it
_COMPILED = ("daq_service.service", "sim_service.service", "sync.record.writer")
_COMPILED_FOR_EFFORTS = ("daq_service.effort",)
_COMPILED_AHEAD = ("sim_service.look_ahead.service",)
_MODULE = re.compile(r"[a-z]\w{0,39}", re.ASCII)  # what a machine or a device of ours may be called


def compile_ahead(config: "Config", file: Path) -> None:
    """Compile on all cores, with progress, what is not compiled yet. Quick if everything is."""
    from daq_service.devices import DEVICES
    from sync.compile import build, dependencies

    name = compiled_set(config, file)
    if build.done(name):
        return
    refuse_early(config, file)  # errors are reported before compiling takes its minute
    refuse_unknown_machine(config, file)
    modules = [*_COMPILED, *_ours(DEVICES.get(str(config.source.get("kind")), ""), dependencies.runs)]
    # a machine may import what makes it only when it is made
    for module in machine_modules(*machine_names(config.sim.machine, file.parent)):
        modules += _ours(module, build.needed_by)
    if config.efforts:
        modules += _COMPILED_FOR_EFFORTS
    if config.look_ahead.enabled:
        modules += _COMPILED_AHEAD
    if config.view.enabled:
        modules += _ours("tandem.view.process", build.needed_by)
    build.ensure(name, *modules)


def refuse_unknown_machine(config: "Config", file: Path) -> None:
    from sim_service.registry import known_machines

    name, known = machine_name(config, file.parent), known_machines()
    if name and name not in known:  # a file without a name is refused where the rest of it is read
        machine = config.sim.machine
        where = f"{file.parent / machine}: machine" if machine.endswith(".toml") else "sim.machine"
        raise ConfigError(f"{where} = {name!r}: must be one of {', '.join(known)}")


def compiled_set(config: "Config", file: Path) -> str:
    """A name for what this configuration needs compiled."""
    parts = [*map(str, machine_names(config.sim.machine, file.parent)), str(config.source.get("kind"))]
    parts += ["efforts"] * bool(config.efforts) + ["ahead"] * config.look_ahead.enabled
    parts += ["page"] * config.view.enabled
    return "run-" + "-".join(part if _MODULE.fullmatch(part) else "unknown" for part in parts)


def _ours(module: str, needs: Callable[[Path], frozenset[Path]]) -> list[str]:
    """The modules with kernels that a machine or a device of ours needs; none for another package's, which is compiled
    when it is imported."""
    from sync.compile import dependencies

    if not _MODULE.fullmatch(module.rpartition(".")[2]):
        return []
    try:
        file = dependencies.file_of(module)
    except ModuleNotFoundError:
        return []
    files = [each for each in needs(file) if dependencies.kernels_in(each)]
    return sorted(dependencies.module_name(each) for each in files)


def figures_line(status: dict[str, dict[str, Any]]) -> str:
    """What a run shows of itself while it runs; short enough for 80 columns."""
    sim = status.get("sim") or {}
    if not sim.get("steps"):
        return ""
    shown = f"{sim['shown']}, " if "shown" in sim else ""  # the machine's first figure
    return (
        f"{shown}age {sim['age_us']['p50']:.0f} us, step {sim['hops_us']['step']['p50']:.0f} us,"
        f" {sim['deadline_misses']} missed"
    )


def _limits(config: "Config", file: Path, overrides: list[str]) -> list[str]:
    """Settings that limit what a hand could feel as chatter, from a measurement of this machine."""
    from daq_service.devices import moves_hand

    if not moves_hand(config):
        return []
    compile_ahead(config, file)  # only the machine itself knows whether it has a limit
    from tandem.doctor import all_rows

    settled: list[str] = []
    for of in all_rows():
        found, warning = of.held_down(config, file, overrides)
        settled += found
        if warning:
            print(f"tandem: {warning}", file=sys.stderr)
    return settled


def live_run(
    file: Path,
    overrides: list[str],
    seconds: float | None,
    title: str,
    runs: Path | None = None,
    begun_at: float | None = None,
    token_file: Path | None = None,
    channels: "Callable[[Config], tuple[str, ...]]" = lambda config: (),
) -> tuple["Config", Any, Path | None]:
    """A run, recorded in a new folder of `runs` if there is one; (configuration, outcome, that folder).

    `begun_at` (monotonic seconds), for a process that makes several runs: since when this one's first step is awaited.
    The page's token is in `token_file`, or in the environment, or a new one. `channels` of the machine are stored of
    every step for a report, besides those that are stored for all machines.
    """
    from sync.config.config import load, shipped_instead
    from sync.files.token import page_token
    from tandem.live.supervisor.launch import ProcessGroup

    token = page_token(token_file)  # read before any process inherits the environment
    config = load(file, overrides)
    refuse_early(config, file)  # before a measurement takes its time
    for sentence in shipped_instead(config, file):
        print(f"tandem: {sentence}", file=sys.stderr)
    if runs is not None and config.record.enabled:
        refuse_place(runs)
    if limits := _limits(config, file, overrides):
        overrides = [*overrides, *limits]
        config = load(file, overrides)
    compile_ahead(config, file)
    # before all else: it imports while this process goes on
    group = ProcessGroup(file, overrides, recorded=runs is not None and "record.enabled=false" not in overrides)
    folder = None
    try:
        refuse_early(config, file)
        from sync.transport.keys import transport_keys
        from tandem.live.figures import figures
        from tandem.live.supervisor.supervise import supervise
        from tandem.live.supervisor.truth import truth_of

        source = _opened(config, file)
        for role in ("daq", "sim"):
            transport_keys(config, file, role)  # both run here, so both pairs must be
        folder = new_run_folder(runs, config.name) if runs is not None and config.record.enabled else None
        duration = seconds
        if duration is None:  # a source that ends by itself ends the run
            duration = source.seconds or config.seconds
        with progress_bar() as bar:
            starting = f"{title}: starting (the first time, compiling)"
            task = bar.add_task(starting, total=duration or None, figures="")

            def update(elapsed: float, status: dict[str, dict[str, Any]]) -> None:
                if elapsed >= 0:
                    bar.update(task, description=title, completed=elapsed, figures=figures_line(status))

            outcome = supervise(
                config,
                group,
                duration,
                update,
                lambda text: bar.console.print(text, markup=False, highlight=False, soft_wrap=True),
                folder,
                lambda o: figures(config, o),
                begun_at,
                token,
                channels(config),
                truth_of(config, file),
            )
    except BaseException:
        if folder is not None:
            with contextlib.suppress(OSError):
                folder.rmdir()  # the empty folder of a run that never started
        raise
    finally:
        group.call_off()
    return config, outcome, folder
