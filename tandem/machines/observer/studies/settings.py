"""What a twin experiment's file says (configs/observers/*.toml): machine, truth, inputs, sensors, filter.

The truth is the machine of the same file with other parameters. Inputs are sums of sines with random amplitudes and
phases, and inputs that hold an output of the truth near a target; the same go to every filter.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from sync.config.toml import Origins, Section, check, lay_over, read_toml
from sync.errors import ConfigError
from tandem.estimation.description import Earned, NotNegative, Positive, Walk

Number = Annotated[float, Field(ge=-1e9, le=1e9)]


class MachineOf(Section):
    file: str = Field(min_length=1)  # of the machine, from this file; or the name of one that needs none
    top: dict[str, str] = {}  # settings in front of its file, such as formulation


class TruthOf(Section):
    parameters: dict[str, Number] = {}  # where the truth differs from the file
    quantities: dict[str, Number] = {}  # true values of estimated quantities that are no parameters
    noise: bool = False  # whether the truth moves at random as the filter believes: for tests of consistency


class Waves(Section):
    """A sum of sines: amplitude of each uniform up to `amplitude` / count, frequency between two."""

    kind: Literal["waves"]
    amplitude: Positive
    hz: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    count: int = Field(3, ge=1, le=20)
    rates: list[str] = []  # inputs that are its first, second, ... derivative
    mean: NotNegative = 0.0  # to one side or the other, by the seed
    grow_s: NotNegative = 1.0  # from nothing to all of it


class Hold(Section):
    """gain (target - output), within limits; the target changes at random by +-`spread` every `every_s`."""

    kind: Literal["hold"]
    output: str
    target: Number
    gain: Number
    least: Number
    most: Number
    spread: NotNegative = 0.0
    every_s: Positive = 5.0


class Watched(Section):
    unit: str
    scale: Number = 1.0
    relative_to: NotNegative = 0.0  # 0: absolute; otherwise errors are shares of the truth, of this at least
    limit: NotNegative = 0.0  # promised root mean square; 0: none


class FilterOf(Section):
    estimated: list[str] = []
    states: dict[str, Walk]  # by names of coordinates or patterns; the last that fits counts
    quantities: dict[str, Earned] = {}
    history: int = Field(64, ge=2, le=1000)
    most: int = Field(8, ge=2, le=1000)


class Study(Section):
    name: str
    machine: MachineOf
    truth: TruthOf = TruthOf()
    step_ms: float = Field(5.0, ge=0.1, le=20.0)
    seconds: float = Field(40.0, gt=0, le=3600)
    settle_s: NotNegative = 5.0  # not counted
    runs: int = Field(20, ge=1, le=1000)
    begin_s: NotNegative = 0.0  # the truth runs so long before, with `begin`
    begin: dict[str, Number] = {}
    missing: list[str] = []  # inputs that are not measured
    inputs: dict[str, dict[str, Any]] = {}
    sensors: dict[str, dict[str, Any]]
    filter: FilterOf
    watch: dict[str, Watched]
    outage: str = ""  # the sensor whose outages divide the time


KINDS: dict[str, type[Section]] = {"waves": Waves, "hold": Hold}


def read_study(path: Path) -> Study:
    """A study; with `base`, what another file says, and what this one says in its place."""
    data = read_toml(path)
    base = data.pop("base", None)
    if base is not None:
        if not isinstance(base, str) or not (path.parent / base).is_file():
            raise ConfigError(f"{path}: base = {base!r}: must be a file, from this one's folder")
        under, origins = read_toml(path.parent / base), Origins()
        lay_over(under, data, str(path), origins)
        return check(Study, under, str(path.parent / base), origins=origins)
    return check(Study, data, str(path))
