"""The commands of the steering wheel: `tandem study caster`, `tandem study caster-trials`, `tandem study steering`."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from sync.child_python import python_command, python_environment
from sync.errors import ConfigError
from tandem.console.config_argument import PadConfig
from tandem.console.help_text import takes_only
from tandem.console.present import give
from tandem.console.shipped_configs import CONFIGS
from tandem.console.terminal import (
    AsJson,
    Overrides,
    Parameters,
    Runs,
    compiled,
    errors,
    parameters,
    progress,
    run_folder,
)
from tandem.machines.car.commands.vehicle import BUGGY, Vehicle

DEVICE = CONFIGS / "gamepad.toml"
Trails = Annotated[str, typer.Option(help="Caster trails, from small to large.")]


def _trails(text: str) -> tuple[float, ...]:
    try:
        found = tuple(1e-3 * float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) < 2 or list(found) != sorted(set(found)) or not all(-0.05 <= t <= 0.1 for t in found):
        raise ConfigError(f"--trails-mm {text!r}: must be two or more, rising, from -50 to 100 mm, such as 15,25,35")
    return found


def caster(
    vehicle: Vehicle = BUGGY,
    trails_mm: Trails = "15,25,35",
    settings: Parameters = None,
    speed_kmh: Annotated[float, typer.Option(min=30, max=150, help="Of the car.")] = 75.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the instant at which the obstacle appears.")] = 1,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Swerve around an obstacle with other caster trails: what is felt at the wheel, beside trail x lateral force.

    Exit codes: 0 a larger trail gives a larger torque, as much as predicted within 10 %; 1 not; 2 a file, a name or a
    value is wrong; 3 the car diverged.
    """
    from sync.config.toml import read_toml

    with errors():
        trails, changed = _trails(trails_mm), parameters(settings)
        read_toml(vehicle)  # what is no file is reported before anything is compiled
        with compiled("iso", "tandem.machines.car.studies.steering.caster", "tandem.machines.car.buggy"):
            from tandem.machines.car.studies.iso import tables
            from tandem.machines.car.studies.iso.vehicle import load_vehicle
            from tandem.machines.car.studies.steering import caster as study

            car = load_vehicle(vehicle, changed)
        with progress("study caster") as update:
            result = study.caster(car, trails, seed, speed_kmh, update)
    found = tables.report("study caster", car, [result], complaints=study.complaints(result), lead=True)
    give(found, as_json, run_folder(runs, "study_caster"))


def caster_trials(
    context: typer.Context,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Name or number of the test person.")],
    config: PadConfig = DEVICE,
    trails_mm: Trails = "15,25,35",
    repeats: Annotated[int, typer.Option(min=1, max=50, help="Trials with each trail.")] = 2,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="Of a trial.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order, and of the obstacles.")] = 1,
    overrides: Overrides = None,
    go_on: Annotated[
        Path | None, typer.Option("--summary", help="A session that was driven: its summary alone.")
    ] = None,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """Drive around obstacles with hidden caster trails in random order, and see at the end what was what.

    Exit codes: 0 all trials were driven; 1 one was not; 2 a file, a name or a value is wrong.
    """
    with errors():
        from tandem.machines.car.studies.steering import protocol

        if go_on is None:
            refuse_without_torque(config, overrides or [])
            folder = run_folder(runs, f"caster_trials_{''.join(c if c.isalnum() else '_' for c in person)}")
            session = protocol.Session(person, seed, protocol.order(_trails(trails_mm), repeats, seed))
            protocol.save(folder, session)
            _drive(folder, session, config, seconds, overrides or [])
        else:
            takes_only(context, "--summary drives nothing", "person", "go_on", "as_json")
            folder, session = go_on, protocol.load(go_on)
        rows = protocol.summary(session, [protocol.figures(protocol.read(folder / run)) for run in session.runs])
        print(f"session: {folder}", file=sys.stderr)
    give(protocol.report(session, rows), as_json)


def refuse_without_torque(config: Path, overrides: list[str]) -> None:
    """Raises ConfigError for a configuration with which a person would feel nothing of any trail."""
    from daq_service.devices import moves_hand
    from sync.config.config import load
    from tandem.doctor.haptics import shown_share
    from tandem.machines.car.doctor.feel import CHANNEL, GAIN, LIMIT

    read = load(config, overrides)
    remedy = """put fragments/haptic_wheel.toml over it: --set 'include=["fragments/haptic_wheel.toml"]'"""
    if not moves_hand(read):
        kind = read.source.get("kind")
        missing = "[source.effort] is missing" if "effort" not in read.source else f"source.kind = {kind!r}"
        raise ConfigError(f"{config}: {missing}: no torque goes to a person's wheel, and no trail is felt; {remedy}")
    if (channel := read.source["effort"].get("channel")) != CHANNEL:
        raise ConfigError(f"{config}: source.effort.channel = {channel!r}: must be {CHANNEL!r}; {remedy}")
    own = read.sim.parameters
    gains = {"source.effort.gain": read.source["effort"].get("gain"), f"sim.parameters.{GAIN}": own.get(GAIN, 1.0)}
    for key, value in (gains | ({f"sim.parameters.{LIMIT}": own[LIMIT]} if LIMIT in own else {})).items():
        if value == 0.0:
            raise ConfigError(f"{config}: {key} = 0: no torque goes to the wheel, and no trail is felt")
    if LIMIT not in own and not (own.get("device_damping") and shown_share(read)):
        raise ConfigError(
            f"{config}: of this wheel no limit can be measured, and it would get no torque: set sim.parameters.{LIMIT},"
            " carefully, from small on"
        )


def _drive(  # type: ignore[no-untyped-def]
    folder: Path, session, config: Path, seconds: float, overrides: list[str]
) -> None:
    """All trials, one after the other; what is different about them is not shown."""
    from tandem.machines.car.studies.steering import protocol

    with compiled("iso", "tandem.machines.car.studies.steering.caster", "tandem.machines.car.buggy"):
        from tandem.machines.car.studies.iso.vehicle import load_vehicle
        from tandem.machines.car.studies.steering.caster import lean_for

        car = load_vehicle(BUGGY, {})
        changed = {trail: lean_for(car, trail) for trail in set(session.trails)}
    for k, trail in enumerate(session.trails):
        name = f"trial_{k + 1:02d}"
        typer.prompt(f"trial {k + 1} of {len(session.trails)}; Enter begins it", default="", show_default=False)
        sets = {f"sim.parameters.{key}": f"{value:.9g}" for key, value in changed[trail].items()}
        sets |= {"sim.machine": "vehicles/swerve.toml", "sim.parameters.obstacle_seed": f"{session.seed + k}.0"}
        command = python_command("-m", "tandem", "run", str(config), "--seconds", f"{seconds:g}")
        command += ["--runs", str(folder / name)] + [
            part for each in (*overrides, *(f"{k}={v}" for k, v in sets.items())) for part in ("--set", each)
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=python_environment())
        if done.returncode:
            raise ConfigError(f"trial {k + 1} ended with code {done.returncode}: {done.stderr.strip()[-500:]}")
        session.runs.append(name)
        session.marks.append(_mark())
        protocol.save(folder, session)


def _mark() -> int | None:
    """What the person says of the steering."""
    from tandem.machines.car.studies.steering.protocol import MARKS

    low, high = MARKS
    answer = typer.prompt(
        f"how heavy was the steering, {low} light to {high} heavy? (Enter: no answer)", default="", show_default=False
    )
    return int(answer) if answer.strip().isdigit() and low <= int(answer) <= high else None


def steering(
    vehicle: Vehicle = BUGGY,
    settings: Parameters = None,
    speed_kmh: Annotated[float, typer.Option(min=1, max=200, help="Of the sweep.")] = 75.0,
    delay_ms: Annotated[float, typer.Option(min=0, max=100, help="Of the loop, from sample to motor.")] = 3.0,
    inertia_kgm2: Annotated[float, typer.Option(min=0.001, max=1, help="Of the device's wheel.")] = 0.03,
    damping_nms: Annotated[float, typer.Option(min=0.001, max=10, help="Of the device's wheel, per rad.")] = 0.3,
    gain: Annotated[float, typer.Option(min=0.01, max=10, help="Torque of the motor per torque of the car.")] = 1.0,
    as_json: AsJson = False,
    runs: Runs = Path("runs"),
) -> None:
    """The car at a haptic wheel: torque over frequency two ways, the largest passive gain, and the wheel let go.

    Exit codes: 0 both ways agree and the wheel comes to rest at every speed; 1 not; 2 a file, a name or a value is
    wrong; 3 the car diverged.
    """
    from sync.config.toml import read_toml

    with errors():
        changed = parameters(settings)
        read_toml(vehicle)
        with compiled("iso", "tandem.machines.car.studies.steering.feel", "tandem.machines.car.buggy"):
            from tandem.machines.car.studies.iso import tables
            from tandem.machines.car.studies.iso.vehicle import load_vehicle
            from tandem.machines.car.studies.steering import feel
            from tandem.machines.car.studies.steering.hands_off import Device

            car = load_vehicle(vehicle, changed)
        device = Device(inertia_kgm2, damping_nms, gain)
        with progress("study steering") as update:
            results, complaints = feel.steering(car, speed_kmh, device, 1e-3 * delay_ms, update)
    found = tables.report("study steering", car, results, complaints=complaints, lead=True)
    give(found, as_json, run_folder(runs, "study_steering"))
