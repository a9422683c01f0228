"""An FMU that is not ours (tests/foreign_fmu.c), compiled and zipped as its maker would."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

from sync.files import consent
from tandem.machines.fmu.archive import PLATFORMS

SOURCE = Path(__file__).with_suffix(".c")
TOKEN = "{8c4e810f-3df3-4a00-8276-176fa3c9f9e0}"
_FIRST = 4_000_000_000  # references may be that large
VARIABLES = (
    ("u", 0, "input", "continuous", "N", 0.0),
    ("gain", 1, "parameter", "tunable", "m/N", 2.0),
    ("time constant", 2, "parameter", "fixed", "s", 0.1),
    ("lag.x[1]", 3, "output", "continuous", "m", None),
    ("sum", 4, "output", "continuous", "m.s", None),
)


def description(version: int = 3, stateful: bool = True, token: str = TOKEN, extra: str = "") -> str:
    lines = []
    for name, at, causality, variability, unit, start in VARIABLES:
        value = "" if start is None else f' start="{start}"'
        head = f'name="{name}" valueReference="{_FIRST + at}" causality="{causality}" variability="{variability}"'
        real = f'unit="{unit}"{value}'
        lines.append(
            f"<Float64 {head} {real}/>" if version == 3 else f"<ScalarVariable {head}><Real {real}/></ScalarVariable>"
        )
    noun, key = ("FMUState", "instantiationToken") if version == 3 else ("FMUstate", "guid")
    able = f'canGetAndSet{noun}="true" canSerialize{noun}="true"' if stateful else ""
    return (
        f'<fmiModelDescription fmiVersion="{version}.0" modelName="lag" {key}="{token}">'
        f'<CoSimulation modelIdentifier="lag" {able}/>'
        f"<ModelVariables>{''.join(lines)}{extra}</ModelVariables></fmiModelDescription>"
    )


def foreign_fmu(
    folder: Path, version: int = 3, stateful: bool = True, xml: str | None = None, allowed: bool = True
) -> Path:
    """And a machine's file beside it, `lag.toml`; consent to it, unless not allowed. Needs a C compiler."""
    library = folder / "lag.so"
    options = [f"-DFMI={version}", f'-DTOKEN="{TOKEN}"', *["-DSTATEFUL"] * stateful]
    command = ["cc", "-O1", "-w", "-fPIC", "-shared", *options, str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True)
    made = folder / "lag.fmu"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", xml or description(version, stateful))
        archive.write(library, f"binaries/{PLATFORMS[version]}/lag.so")
        archive.writestr("resources/note.txt", "nothing")
        archive.writestr("documentation/index.html", "is not unpacked")
    (folder / "lag.toml").write_text('machine = "fmu"\nfile = "lag.fmu"\n')
    if allowed:
        allow_file(made)
    return made


def allow_file(file: Path) -> None:
    consent.allow(hashlib.sha256(file.read_bytes()).hexdigest(), file.name)
