"""The fragment: `[inputs.<row>]` with what was found, and in comments where, when and from what.

It appears whole or not at all, never in place of another file unless that is asked for, and only after the
configuration it is for has been read with it.
"""

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from sync.config.config import Config, load
from sync.errors import ConfigError, TandemError
from sync.files.private import by_default, written
from tandem.calibrate.values import Calibration


def default_place(file: Path) -> Path:
    return by_default(file.with_name(f"{file.stem}_calibration.toml"))


def check_place(out: Path, force: bool) -> None:
    """Reported before a person has moved anything."""
    if out.is_dir():
        raise ConfigError(f"--out {out}: is a folder; give a file, such as {out / 'calibration.toml'}")
    if out.exists() and not force:
        raise ConfigError(f"{out}: there is one already; --force replaces it, --out writes another")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise ConfigError(f"{out}: nothing can be written in {out.parent}; give a place with --out")


def include(config: Config, file: Path, out: Path) -> list[str]:
    """What the configuration must include for the fragment to count: all it did, and that at last."""
    others = [name for name in config.include if (file.parent / name).absolute() != out.absolute()]
    return [*others, out.name if out.absolute().parent == file.absolute().parent else str(out.absolute())]


def number(value: float | int) -> str:
    return str(value) if isinstance(value, int) else repr(float(f"{value:.8g}"))


def text(calibration: Calibration, config: Config, file: Path, out: Path, utc: str, steps: dict[str, str]) -> str:
    """`steps` holds what was asked for at both ends of every row: `left zero` and `left full`, and so on."""
    lines = [
        "Written by `tandem calibrate`. It counts where a configuration includes it:",
        f"    include = {json.dumps(include(config, file, out))}",
        f"date    {utc}",
        f"host    {platform.node()}",
        f"file    {file}",
        f"source  {config.source.get('kind')}",
        "captured, in counts:",
    ]
    for name in calibration.done:
        for end, captured in (("zero", calibration.zero[name]), ("full", calibration.full[name])):
            lines.append(
                f"    {name}, {steps[f'{name} {end}']}: {captured.counts:.2f}"
                f" (spread {captured.spread:.1f}, {captured.blocks} blocks)"
            )
    found = ["# " + "".join(c if c.isprintable() else "?" for c in line) for line in lines]
    for name, settings in calibration.settings().items():
        found += ["", f"[inputs.{name}]"]
        for key, value in settings.items():
            left_out = key == "zero_counts" and calibration.leaves_zero_out(name)
            why = f"  # an encoder counts from 0 at every start; {calibration.zero[name].counts:.1f} was captured"
            found.append(f"{key} = {number(value)}" + why * left_out)
    return "\n".join(found) + "\n"


def objection(config: Config, file: Path, overrides: Sequence[str], out: Path) -> str | None:
    """What the source has against the fragment: some know their own scale. Opening it touches no device."""
    from daq_service.devices import open_device

    try:
        open_device(load(file, [*overrides, f"include={json.dumps(include(config, file, out))}"]), file)
    except TandemError as error:
        return str(error)
    return None


def write(content: str, config: Config, file: Path, overrides: Sequence[str], out: Path, force: bool) -> None:
    try:
        with written(out, replace=force) as part:
            part.write_text(content, encoding="utf-8")
            included = [*include(config, file, out)[:-1], str(part)]
            load(file, [*overrides, f"include={json.dumps(included)}"])
    except FileExistsError:
        raise ConfigError(f"{out}: there is one already; --force replaces it, --out writes another") from None
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror}; give another place with --out") from None
