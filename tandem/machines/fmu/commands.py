"""`tandem fmu`: a machine as an FMU; and what an FMU of somebody else is, and whether its code may run here."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sync.errors import ConfigError
from sync.files import consent
from sync.files.private import by_default
from sync.visible import on_one_line
from tandem.console.help_text import Brought, takes_only
from tandem.console.terminal import AsJson, Parameters, errors, output, parameters, status

_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_NAMES, _LONGEST = 20, 100  # of variables that are listed; letters of a text of the FMU's maker


def fmu(
    context: typer.Context,
    machine: Annotated[
        str | None,
        typer.Argument(
            metavar="MACHINE",
            help="A machine by its name or its file; a configuration by its file or name; a run; a mechanism's file. Or"
            " an FMU, FILE.fmu: what it is, and whether its code may run here.",
        ),
    ] = None,
    settings: Parameters = None,
    step_ms: Annotated[
        float | None,
        typer.Option(min=0.01, max=1000, help="Of the model's own steps. Default: 5, of a mechanism its file's."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file. Default: NAME.fmu here.")] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="For which it has code: x86_64-linux, aarch64-linux, x86_64-windows, x86_64-darwin, aarch64-darwin;"
            " may be given several times. Default: this host's."
        ),
    ] = None,
    allow: Annotated[
        bool, typer.Option("--allow", help="Of an FMU: show what it is, ask, and let its code run here as a machine.")
    ] = False,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Of an FMU, or of a hash of --list: its code may run here no longer.")
    ] = False,
    listed: Annotated[bool, typer.Option("--list", help="FMUs whose code may run here; nothing is made.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --allow: do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a machine as an FMU (FMI 3.0) of compiled code, without Python; or let the code of an FMU run here.

    It is for Co-Simulation, and for Model Exchange too if the machine has rates of change. Parameters
    that may change while it runs are tunable; those that shape the machine stand as they are now.

    The code of an FMU runs as a machine only after --allow, which shows the FMU and asks. Consent is kept by its
    SHA-256 in a file of yours (~/.config/tandem/fmu_consent, or TANDEM_FMU_CONSENT).
    """
    with errors():
        if listed:
            takes_only(context, "--list makes nothing", "listed", "as_json")
            _print_consented(as_json)
            return
        if machine is None:
            raise ConfigError("fmu: a machine, or an FMU, is expected; --list has the FMUs whose code may run here")
        if allow or revoke or machine.endswith(".fmu"):
            of_consent = ("machine", "allow", "revoke", "as_json", *["yes"] * allow)
            takes_only(context, f"of {machine} nothing is made, and without --allow nothing asked", *of_consent)
            _consent(machine, allow, revoke, yes, as_json)
            return
        changed = parameters(settings)
        with status("compiling"):
            from sync.config.extras import installed_version
            from tandem.fmu.build import write_fmu
            from tandem.fmu.platforms import HOST
            from tandem.fmu.sources import load_source

            name = Path(machine).stem
            loaded, exchange, step_s = load_source(machine, changed)
            file = out or by_default(Path(f"{name}.fmu"))
            step_s = step_s if step_ms is None else 1e-3 * step_ms
            info = write_fmu(loaded, name, step_s, file, f"tandem {installed_version()}", platform or [HOST], exchange)
    if as_json:
        print(json.dumps(info), flush=True)
        return
    kinds = ("inputs", "outputs", "parameters", "states")
    counts = ", ".join(f"{info[key]} {key if info[key] != 1 else key[:-1]}" for key in kinds)
    output().print(
        f"{info['fmu']}: {info['machine']}, {counts}; {'Model Exchange and ' * info['model_exchange']}Co-Simulation; "
        + ", ".join(f"{name} {size / 1e3:.0f} kB" for name, size in info["platforms"].items()),
        markup=False, soft_wrap=True,
    )  # fmt: skip
    if info["no_model_exchange"]:
        output().print(f"No Model Exchange: {info['no_model_exchange']}.", markup=False, soft_wrap=True)


def ssp(
    components: Annotated[
        list[str],
        typer.Argument(metavar="NAME=MACHINE...", help="Each a component: its name, and what `tandem fmu` takes."),
    ],
    step_ms: Annotated[float, typer.Option(min=0.01, max=1000, help="Of the models' own steps.")] = 5.0,
    out: Annotated[Path | None, typer.Option(help="The file. Default: system.ssp here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write several machines as a system that SSP tools open (SSP 1.0): their FMUs, connected by name.

    An output goes to every input of the same name and unit of another component.
    """
    with errors():
        machines: dict[str, str] = {}
        for word in components:
            name, found, machine = word.partition("=")
            if not found or not name or not machine or name in machines:
                raise ConfigError(f"{word}: expected NAME=MACHINE, such as car=buggy, each name once")
            machines[name] = machine
        with status("compiling"):
            from sync.config.extras import installed_version
            from tandem.fmu.ssp import write_ssp

            file = out or by_default(Path("system.ssp"))
            info = write_ssp(file.stem, machines, 1e-3 * step_ms, file, f"tandem {installed_version()}")
    if as_json:
        print(json.dumps(info), flush=True)
        return
    parts = ", ".join(f"{name} ({machine})" for name, machine in info["components"].items())
    output().print(f"{info['ssp']}: {parts}", markup=False, soft_wrap=True)
    for each in info["connections"]:
        output().print(f"  {each}", markup=False, soft_wrap=True)


def _consent(name: str, allow: bool, revoke: bool, yes: bool, as_json: bool) -> None:
    """Show an FMU; then give or take back consent, if that is asked for."""
    from tandem.machines.fmu.archive import forget, inspect, unpack

    if allow and revoke:
        raise ConfigError("fmu: --allow --revoke: give one of them")
    if allow and as_json and not yes:
        raise ConfigError("fmu: --allow --json: shows nothing and asks nothing; give --yes too")
    if revoke and _HASH.fullmatch(name):
        about: dict[str, Any] = {"sha256": name, "consent": name in consent.consented()}
    else:
        about = _description(Path(name), inspect(Path(name)))
    if not as_json and "fmu" in about:
        _print(about)
    if revoke:
        if not about["consent"]:
            raise ConfigError(f"{name}: there is no consent to it in {consent.place()}; nothing to revoke")
        consent.revoke(about["sha256"])
        forget(about["sha256"])
    elif allow:
        if not about["consent"]:
            if not yes and not typer.confirm(
                "Its code would run as you, with everything you may do. Let it?", err=True
            ):
                raise typer.Exit(1)
            consent.allow(about["sha256"], Path(name).name)
        unpack(Path(name))  # records that name it can be replayed from here on
    about["consent"] = about["sha256"] in consent.consented()
    if as_json:
        print(json.dumps(about), flush=True)
        return
    state = "may run here" if about["consent"] else "may not run here: --allow asks"
    output().print(f"Its code {state} ({consent.place()}).", markup=False, soft_wrap=True, highlight=False)


def _description(file: Path, found: Any) -> dict[str, Any]:
    from tandem.machines.fmu.archive import PLATFORMS
    from tandem.machines.fmu.variables import read_description

    about = read_description(found.xml, f"{file} (modelDescription.xml)")
    names = {
        f"{causality}s": [f"{v.name} ({v.unit})" for v in about.variables if v.causality == causality]
        for causality in ("input", "output", "parameter")
    }
    return {
        "fmu": str(file), "name": about.model, "version": about.about["version"], "fmi": about.about["fmiVersion"],
        "tool": about.about["generationTool"], "description": about.about["description"], "sha256": found.hash,
        "bytes": found.size, "platforms": list(found.platforms),
        "has_code_for_this_host": PLATFORMS[about.version] in found.platforms, **names,
        "consent": found.hash in consent.consented(),
    }  # fmt: skip


def _print(about: dict[str, Any]) -> None:
    host = "" if about["has_code_for_this_host"] else "; none for this host"
    rows = {
        "name": f"{_cut(about['name'])} {_cut(about['version'])}".strip(),
        "described as": _cut(about["description"]) or "–",
        "made with": _cut(about["tool"]) or "–",
        "FMI": _cut(about["fmi"]),
        "code for": (", ".join(_cut(name) for name in about["platforms"][:_MOST_NAMES]) or "nothing") + host,
        "size": f"{about['bytes'] / 1e3:.0f} kB",
        "SHA-256": about["sha256"],
        **{kind: _names(about[kind]) for kind in ("inputs", "outputs", "parameters")},
    }
    console = output()
    console.print(f"{about['fmu']}, as it says of itself:", markup=False, soft_wrap=True, highlight=False)
    for key, value in rows.items():
        console.print(f"  {key:13s} {value}", markup=False, soft_wrap=True, highlight=False)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES)
    return ", ".join(_cut(name) for name in names[:_MOST_NAMES]) + more if names else "none"


def _cut(text: str) -> str:
    return on_one_line(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _print_consented(as_json: bool) -> None:
    found = consent.consented()
    if as_json:
        print(json.dumps({"file": str(consent.place()), "fmus": found}), flush=True)
        return
    for hash, name in found.items():
        output().print(f"{hash}  {_cut(name)}", markup=False, soft_wrap=True, highlight=False)
    if not found:
        output().print(f"{consent.place()}: no FMU may run here", markup=False, soft_wrap=True, highlight=False)


COMMANDS = (Brought("fmu", fmu), Brought("ssp", ssp))
