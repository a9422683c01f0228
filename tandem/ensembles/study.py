"""A study as its file has it: machine, manoeuvre, parameters, figures of merit; wrong ones are refused by name."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from sync.config.toml import Section

Distribution = Literal["uniform", "log-uniform", "normal"]
Method = Literal["grid", "list", "latin-hypercube", "sobol", "file"]
RANDOM = ("latin-hypercube", "sobol")
Kind = Literal[
    "peak", "maximum", "minimum", "mean", "rms", "last", "overshoot", "settling_time", "integral", "energy", "distance"
]


class SweptParameter(Section):
    """In the units of the machine."""

    values: list[float] | None = Field(None, min_length=1)
    low: float | None = None
    high: float | None = None
    points: int | None = Field(None, ge=2, le=1_000_000)  # of a grid, from low to high
    distribution: Distribution = "uniform"
    mean: float | None = None
    sigma: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.values is not None:
            others = [name for name in ("low", "high", "points", "mean", "sigma") if getattr(self, name) is not None]
            if others:
                raise ValueError(f"values = [...] and {', '.join(others)}: give one or the other")
            return self
        if self.distribution == "normal":
            if self.mean is None or self.sigma is None:
                raise ValueError("a normal distribution needs mean and sigma")
            if self.low is not None and self.high is not None and not self.low < self.high:
                raise ValueError("low, where a normal distribution is cut off, must be below high")
            return self
        if self.mean is not None or self.sigma is not None:
            raise ValueError("mean and sigma are of distribution = 'normal'")
        if self.low is None or self.high is None or not self.low < self.high:
            raise ValueError("give values = [...], or low and high with low < high")
        if self.distribution == "log-uniform" and self.low <= 0:
            raise ValueError("a log-uniform distribution needs low > 0")
        return self


class Sampling(Section):
    method: Method = "grid"
    count: int | None = Field(None, ge=1, le=10_000_000)
    seed: int = Field(1, ge=0)
    file: str | None = None  # of samples, relative to the study: a column a parameter

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.method in RANDOM and self.count is None:
            raise ValueError(f"{self.method} needs count")
        if (self.method == "file") != (self.file is not None):
            raise ValueError("method 'file' needs file, and no other method takes one")
        return self


class Figure(Section):
    """One number of a run, from a channel of it: an output or an input of the machine."""

    kind: Kind
    channel: str
    times: str | None = None  # of energy: the channel it is multiplied with
    band: float = Field(0.05, gt=0)  # of settling_time: of the way from first to last value
    from_s: float = Field(0.0, ge=0)
    to_s: float | None = None
    record: str | None = None  # of distance: a run, relative to the study
    recorded: str | None = None  # its channel; the same name if not given

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.kind == "energy") != (self.times is not None):
            raise ValueError("kind 'energy' needs times = \"CHANNEL\", and no other kind takes it")
        if (self.kind == "distance") != (self.record is not None):
            raise ValueError("kind 'distance' needs record, and no other kind takes one")
        if self.to_s is not None and self.to_s <= self.from_s:
            raise ValueError("to_s must be after from_s")
        return self


class Study(Section):
    name: str = Field(pattern=r"^[\w.-]{1,64}$")
    machine: str  # a name, a machine's file or a configuration; files relative to the study, or shipped
    step_ms: float = Field(5.0, gt=0, le=1000)
    set: dict[str, float] = {}  # parameters of all runs that differ from the machine's file
    manoeuvre: dict[str, Any]
    parameters: dict[str, SweptParameter] = {}
    sampling: Sampling = Sampling()
    samples: list[dict[str, float]] = []  # of method "list", where `values` are not given
    figures: dict[str, Figure] = {}
    channels: list[str] = []  # kept of every run, in a file of its own
    channel_every: int = Field(1, ge=1)  # steps

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if "kind" not in self.manoeuvre:
            raise ValueError("manoeuvre.kind: is missing")
        if self.samples and self.sampling.method != "list":
            raise ValueError("[[samples]] are of sampling.method = 'list'")
        if self.sampling.method == "list":
            self._check_list()
        if self.parameters and self.sampling.method in ("grid", "list") and self.sampling.count is not None:
            raise ValueError(
                f"sampling.count = {self.sampling.count}: of latin-hypercube, sobol and file; a {self.sampling.method}"
                " has as many runs as its values give"
            )
        for name, each in self.parameters.items():
            method = self.sampling.method
            if method == "grid" and each.values is None and (each.points is None or each.distribution == "normal"):
                raise ValueError(f"parameters.{name}: a grid needs values, or low, high and points")
            if method == "list" and each.values is None:
                raise ValueError(f"parameters.{name}: a list needs values")
            if method in RANDOM and each.values is not None:
                raise ValueError(f"parameters.{name}.values: {method} takes low and high, or a distribution")
        return self

    def _check_list(self) -> None:
        if not self.samples and not self.parameters:
            raise ValueError("sampling.method = 'list' needs values of parameters, or [[samples]]")
        lengths = {name: len(each.values) for name, each in self.parameters.items() if each.values is not None}
        if not self.samples and len(set(lengths.values())) > 1:
            different = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"parameters: lists of different lengths ({different}); one value of each makes a run")
        for k, row in enumerate(self.samples):
            if set(row) != set(self.samples[0]):
                raise ValueError(f"samples[{k}]: has {', '.join(row)}; the first has {', '.join(self.samples[0])}")
