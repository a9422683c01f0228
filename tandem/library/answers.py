"""What calls answer with, key by key: of a run, of a replay, of a record. The same as JSON from the command line."""

from typing import NotRequired, TypedDict

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class Balance(TypedDict):
    """Where the blocks went: produced = used + superseded + lost."""

    produced: int
    used: int
    superseded: int
    lost: int
    closes: bool


class Times(TypedDict):
    """A histogram, in us."""

    n: int
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float


class RunResult(TypedDict):
    """What `tandem run --json` prints, and the exit code."""

    exit_code: int
    transport: str
    seconds: float
    first_step_s: float | None
    steps: int
    steps_not_made: int
    loops: int
    bytes: int
    blocks: int
    ms_per_loop: float
    deadline_misses: int
    skipped: int
    stale_steps: int
    starved_steps: int
    paused_steps: int
    diverged_steps: int
    clipped_steps: int
    capped_steps: int
    balance: Balance
    wire: dict[str, int] | None
    transfer_us: Times
    age_us: Times
    step_us: Times
    lateness_us: Times
    hops_us: dict[str, Times]
    bound_us: float
    phase: dict[str, Json]
    locked_steps: int
    holdover_steps: int
    waited_steps: int
    rehearsal: dict[str, Json]
    clock: dict[str, Json]
    ring_reader: dict[str, int]
    received: dict[str, Json] | None
    doors: dict[str, Json]
    not_newest: int
    reused: int
    epochs: int
    implausible: int
    saturated: int
    source_lost: int
    source: dict[str, Json]
    effort: dict[str, Json] | None
    axis_efforts: dict[str, Json]
    notices: list[str]
    deaths: list[dict[str, Json]]
    record: dict[str, Json] | None
    look_ahead: dict[str, Json] | None
    view: dict[str, Json] | None
    ended: str
    truth: Json


class ReplayFigures(TypedDict):
    """What `tandem replay --json` prints."""

    mode: str
    run: str
    steps: int
    recorded_steps: int
    steps_before: int
    stopped: str | None
    diverged: bool
    diverged_steps: int
    simulated_s: float
    wall_s: float
    read_s: float
    step_s: float
    real_time_factor: float
    missing_blocks: int
    commands_left_out: int
    record_ended: str
    record_damage: list[str]
    deleted: str | None
    delay_ms: float
    jitter_ms: float
    parameters: str
    parameters_differ: int
    other_facts: dict[str, tuple[str, str]]
    identical: bool | None
    first_difference: dict[str, Json] | None
    differing_channels: list[dict[str, Json]]
    efforts: dict[str, Json] | None
    look_ahead: dict[str, Json] | None
    measured: list[dict[str, Json]]
    against: NotRequired[dict[str, Json]]  # mode ideal
    step_error: NotRequired[float | None]  # of a machine that estimates it


class RecordInfo(TypedDict):
    """What `tandem info --json` prints."""

    file: str
    bytes: int
    name: str
    utc: str | None
    seconds: float
    whole: bool
    lacking: int
    ended: str
    cut: str | None
    damage: list[str]
    unsynced: list[str]
    deleted: dict[str, Json] | None
    parts: list[dict[str, Json]]
    topics: dict[str, dict[str, Json]]
    steps: dict[str, Json]
    notices: list[dict[str, Json]]
    model: str | None
    parameters: dict[str, Json]
    start: dict[str, str]
    truth: Json
    attachments: dict[str, int]


class Tuned(TypedDict):
    """A parameter of a run, as it is now."""

    value: float
    first: float  # as the run began
    low: float
    high: float
    unit: str
    text: str
    live: bool
