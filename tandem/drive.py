"""One run, for every command that makes one: checked, started, its progress shown, its folder made."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sync.errors import ConfigError
from tandem.terminal import new_run_folder, progress_bar

if TYPE_CHECKING:
    from sim_service.machines.contract import Machine
    from sync.config import Config


def _opened(file: Path, overrides: list[str]) -> tuple["Config", Any]:
    """The configuration and the source it names."""
    from sync.config import load
    from sync.jit import compiling

    config = load(file, overrides)
    with compiling("source"):
        from daq_service.sources import open_source

        return config, open_source(config, file)


def refuse_early(file: Path, overrides: list[str]) -> "Config":
    """Raises ConfigError for whatever can be found wrong without compiled code: keys, values, files that are missing.

    A person who mistyped a setting has the answer before anything is started or compiled; the rest is found by those
    who use it, before they begin.
    """
    from daq_service import sources
    from sync.config import load
    from sync.toml import read_toml

    config = load(file, overrides)
    sources.refuse_early(config, file)
    for name in (config.sim.machine, *config.sim.files.values(), config.source.get("manoeuvre")):
        if isinstance(name, str) and name.endswith(".toml"):
            read_toml(file.parent / name)
    return config


def checked_config(file: Path, overrides: list[str]) -> "Config":
    """The configuration, with everything in it that could be wrong tried out. Nothing has started yet."""
    import numpy as np

    from sync.jit import compiling

    config, _ = _opened(file, overrides)
    with compiling("check"):
        from sim_service.inputs.table import check_rows
        from sim_service.machines import configured_machine

        model, params = configured_machine(config, file.parent)
        check_rows(config.inputs, config.daq.layout, model.inputs, str(file))
        _check_effort(config, model, str(file))
        state, work = np.zeros(len(model.states)), np.zeros(model.work_size)
        model.initial(state, params, model.tables, work)  # it must stand, too
    return config


def _check_effort(config: "Config", machine: "Machine", file: str) -> None:
    """Only what a machine declares as an effort goes back to a device; the virtual one takes any channel."""
    effort = config.source.get("effort")
    if not isinstance(effort, dict) or config.source.get("kind") == "virtual" or "channel" not in effort:
        return
    if effort["channel"] not in machine.efforts:
        units = {q.name: q.unit for q in machine.outputs}
        there = ", ".join(f"{name} ({units[name]})" for name in machine.efforts) or "none"
        raise ConfigError(f"{file}: source.effort.channel = {effort['channel']!r}: efforts of {machine.name}: {there}")


# what a drive compiles before its first step; anything else is compiled by the command that needs it
_COMPILED = (
    "daq_service.service", "daq_service.sources.virtual",
    "sim_service.service", "sim_service.machines.buggy.making",
    "sync.record.writer",
)  # fmt: skip


_COMPILED_FOR_EFFORTS = ("daq_service.effort",)
_EFFORTS_OR_FRAGMENTS = re.compile(r"effort|include\s*=\s*\[\s*[^\s\]]")


def compile_ahead(config: "Config") -> None:
    """On all cores, with progress, where something is still to be compiled."""
    from sync import build

    build.ensure("drive", *_COMPILED)
    if config.source.get("effort") is not None:
        build.ensure("efforts", *_COMPILED_FOR_EFFORTS)


def _may_have_efforts(file: Path, overrides: list[str]) -> bool:
    """Whether it is worth loading the configuration before anything else: quick, and true too often."""
    texts = list(overrides)
    with contextlib.suppress(OSError, ValueError):  # which is reported where the file is loaded
        lines = file.read_text(errors="replace").splitlines()
        texts.append("\n".join(line.partition("#")[0] for line in lines))
    return any(_EFFORTS_OR_FRAGMENTS.search(text) for text in texts)


Own = Callable[[dict[str, Any]], str]  # what a command shows of the simulator's status beside what all show


def figures_line(status: dict[str, dict[str, Any]], own: Own | None = None) -> str:
    """What a run shows of itself while it runs; short enough for 80 columns."""
    sim = status.get("sim") or {}
    if not sim.get("steps"):
        return ""
    return (
        f"{own(sim) if own else ''}age {sim['age_us']['p50']:.0f} us, step {sim['hops_us']['step']['p50']:.0f} us,"
        f" {sim['deadline_misses']} missed"
    )


def run_drive(
    file: Path,
    overrides: list[str],
    seconds: float | None,
    title: str,
    runs: Path | None = None,
    begun_at: float | None = None,
    token_file: Path | None = None,
    own: Own | None = None,
) -> tuple["Config", Any, Path | None]:
    """A run, recorded in a new folder of `runs` if there is one; (configuration, outcome, that folder).

    `begun_at` (monotonic seconds) for a process that makes several: from when on its first step is waited for. The
    page's token is in `token_file`, or in the environment, or a new one.
    """
    from sync import build
    from sync.token import page_token
    from tandem.launch import ProcessGroup

    token = page_token(token_file)  # before anything inherits the environment
    if not build.done("drive") or (not build.done("efforts") and _may_have_efforts(file, overrides)):
        compile_ahead(refuse_early(file, overrides))  # said before the compiler has its minute
    # first of all: it imports beside us
    group = ProcessGroup(file, overrides, recorded=runs is not None and "record.enabled=false" not in overrides)
    folder = None
    try:
        refuse_early(file, overrides)
        from sync.keys import transport_keys
        from tandem.report import figures
        from tandem.supervise import drive

        config, source = _opened(file, overrides)
        for role in ("daq", "sim"):
            transport_keys(config, file, role)  # both run here, so both pairs must be
        folder = new_run_folder(runs, config.name) if runs is not None and config.record.enabled else None
        duration = seconds
        if duration is None:  # a source that ends by itself ends the drive
            duration = getattr(source, "seconds", None) or config.seconds
        with progress_bar() as bar:
            starting = f"{title}: starting (the first time, compiling)"
            task = bar.add_task(starting, total=duration or None, figures="")

            def update(elapsed: float, status: dict[str, dict[str, Any]]) -> None:
                if elapsed >= 0:
                    bar.update(task, description=title, completed=elapsed, figures=figures_line(status, own))

            outcome = drive(
                config,
                group,
                duration,
                update,
                lambda text: bar.console.print(text, markup=False, highlight=False, soft_wrap=True),
                folder,
                lambda o: figures(config, o),
                begun_at,
                token,
            )
    except BaseException:
        if folder is not None:
            with contextlib.suppress(OSError):
                folder.rmdir()  # of a run that never was, if it is empty
        raise
    finally:
        group.call_off()
    return config, outcome, folder
