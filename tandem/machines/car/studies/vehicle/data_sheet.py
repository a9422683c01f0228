"""A vehicle file from the figures of a data sheet, asked for or from a table: `tandem vehicle new`.

The suspension is that of the shipped buggy, moved to the car's wheelbase, tracks and roll centres by the section
[figures] of the file (buggy/from_figures.py). Wheels, arms, brakes and the tyres beside the file grow with the mass.
"""

import csv
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sync.errors import ConfigError, near_names
from tandem.console.shipped_configs import CONFIGS
from tandem.machines.car.buggy.from_figures import tyre_dimensions

TEMPLATE, TYRE = CONFIGS / "vehicles" / "buggy.toml", CONFIGS / "tyres" / "155_80_r13.tir"
MOST_BYTES = 1 << 16
_MASS, _LOAD, _RADIUS, _ASPECT = 790.0, 2500.0, 0.2891, 80.0  # of the template: kg, N, m, %
_GRAVITY = 9.81
_LOCK_TOGETHER = 1.0  # g; below it the front wheels lock first
_CHARACTERISTIC = 25.0  # m/s; of most cars it is between 65 and 100 km/h
_HEAD = "[parameters]"
_UNITS = {  # in SI
    "mm": 1e-3, "cm": 1e-2, "m": 1.0, "kg": 1.0, "%": 1e-2, "1": 1.0, "N/mm": 1e3, "N/m": 1.0, "m2": 1.0,
    "N m/deg": 180.0 / math.pi, "N m/rad": 1.0, "deg/g": math.pi / 180.0 / _GRAVITY, "rad s2/m": 1.0,
}  # fmt: skip
_ALIKE = ({"mm", "cm", "m"}, {"kg"}, {"%", "1"}, {"N/mm", "N/m"}, {"m2"}, {"N m/deg", "N m/rad"}, {"deg/g", "rad s2/m"})
Known = Mapping[str, float]  # SI


@dataclass(frozen=True)
class Question:
    key: str
    text: str
    unit: str  # of a bare number
    low: float  # in that unit
    high: float
    usual: Callable[[Known], float]  # SI, from what was answered before
    why: str = "usual for a compact car"  # that estimate


def _bounce(axle: str, hertz: float) -> Callable[[Known], float]:
    def rate(of: Known) -> float:
        share = of["front_share"] if axle == "front" else 1.0 - of["front_share"]
        return (2.0 * math.pi * hertz) ** 2 * 0.5 * 0.88 * of["mass"] * share  # wheels and arms are some 12 %

    return rate


def _bar(axle: str, part: float) -> Callable[[Known], float]:
    return lambda of: part * 0.5 * of[f"{axle}_wheel_rate"] * of[f"track_{axle}"] ** 2


SIZE = "tyre_size"
QUESTIONS = (
    Question("wheelbase", "Wheelbase", "mm", 500, 6000, lambda of: 2.6),
    Question("track_front", "Track, front", "mm", 500, 3000, lambda of: 1.52),
    Question("track_rear", "Track, rear", "mm", 500, 3000, lambda of: of["track_front"], "as in front"),
    Question("mass", "Mass with driver and fuel", "kg", 200, 5000, lambda of: 1350.0),
    Question("front_share", "Weight on the front axle", "%", 20, 80, lambda of: 0.58),
    Question("cg_height", "Height of the centre of gravity", "mm", 100, 2000, lambda of: 0.205 * of["wheelbase"],
             "0.205 of the wheelbase"),
    Question("front_roll_centre", "Height of the roll centre, front", "mm", -200, 400, lambda of: 0.06),
    Question("rear_roll_centre", "Height of the roll centre, rear", "mm", -200, 500, lambda of: 0.11),
    Question("front_wheel_rate", "Spring rate at one front wheel", "N/mm", 1, 500, _bounce("front", 1.25), "1.25 Hz"),
    Question("rear_wheel_rate", "Spring rate at one rear wheel", "N/mm", 1, 500, _bounce("rear", 1.4), "1.4 Hz"),
    Question("front_bar_rate", "Anti-roll bar, front", "N m/deg", 0, 5000, _bar("front", 0.8),
             "0.8 of what the springs resist in roll"),
    Question("rear_bar_rate", "Anti-roll bar, rear", "N m/deg", 0, 5000, _bar("rear", 0.3),
             "0.3 of what the springs resist in roll"),
    Question("steering_ratio", "Steering ratio, hand wheel to front wheels", "1", 3, 40, lambda of: 15.0),
    Question("understeer_gradient", "Understeer gradient at the front wheels, of the whole car", "deg/g", 0, 12,
             lambda of: of["wheelbase"] / _CHARACTERISTIC**2, "a characteristic speed of 90 km/h"),
    Question("drag_area", "Drag coefficient times frontal area", "m2", 0, 5, lambda of: 0.65),
)  # fmt: skip
USUAL_SIZE = "205/55 R16"


@dataclass
class Answers:
    values: dict[str, float] = field(default_factory=dict)  # SI
    size: str = USUAL_SIZE
    origin: dict[str, str] = field(default_factory=dict)  # of each: given, or which estimate

    def put(self, question: Question, text: str, where: str) -> None:
        self.values[question.key] = in_si(question, text, where)
        self.origin[question.key] = "given"

    def guess(self, question: Question) -> None:
        self.values[question.key] = question.usual(self.values)
        self.origin[question.key] = f"estimate: {question.why}"


def in_si(question: Question, text: str, where: str) -> float:
    """`2310`, `2310 mm` and `2.31 m` are one wheelbase."""
    match = re.fullmatch(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*", text[:80])
    unit = (match[2] if match else "") or question.unit
    alike = next(units for units in _ALIKE if question.unit in units)
    try:
        number = float(match[1]) if match else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or unit not in alike:
        units = ", ".join(sorted(alike))
        raise ConfigError(f"{where}: {question.key} = {text[:40]!r}: must be a number, with one of {units} behind it")
    value = number * _UNITS[unit]
    low, high = question.low * _UNITS[question.unit], question.high * _UNITS[question.unit]
    if not low <= value <= high:
        right = f"must be from {question.low:g} to {question.high:g} {question.unit}"
        raise ConfigError(f"{where}: {question.key} = {number:g} {unit}: {right}")
    return value


def from_table(file: Path) -> Answers:
    """TOML (`wheelbase = "2310 mm"`) or CSV (`wheelbase,2310 mm`); a bare number is in the unit that is asked for."""
    cells = _cells(file)
    known = [SIZE, *(question.key for question in QUESTIONS)]
    for key in cells:
        if key not in known:
            near = near_names(key, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ConfigError(f"{file}: {key[:40]}: no figure of a car; {meant}")
    answers = Answers()
    if SIZE in cells:
        answers.size = cells[SIZE]
        _checked_size(answers.size, str(file))
    for question in QUESTIONS:
        if question.key in cells:
            answers.put(question, cells[question.key], str(file))
        else:
            answers.guess(question)
    return answers


def _cells(file: Path) -> dict[str, str]:
    try:
        if not file.is_file():
            raise ConfigError(f"{file}: is no file; a table of figures is expected, as TOML or CSV")
        data = file.read_bytes()[: MOST_BYTES + 1]
        text = data.decode()
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{file}: is longer than {MOST_BYTES} bytes; no data sheet is")
        if file.suffix.lower() == ".toml":
            found = tomllib.loads(text)
            if odd := [key for key, value in found.items() if not isinstance(value, str | int | float)]:
                raise ConfigError(f"{file}: {odd[0][:40]}: must be a number, or text with a number and its unit")
            return {key: str(value) for key, value in found.items()}
        lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines)]
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{file}: cannot be read as a table of figures: {error}") from None
    if odd_rows := [row for row in rows if len(row) != 2 or not all(row)]:
        raise ConfigError(f"{file}: {','.join(odd_rows[0])[:60]!r}: must be NAME,VALUE, such as wheelbase,2310 mm")
    return dict(rows)


def ask_answers(ask: Callable[[str, str], str]) -> Answers:
    """`ask` is given a question and its default, as text, and returns an answer."""
    answers = Answers()
    answers.size = _checked_size(ask("Tyre size", USUAL_SIZE), "answer")
    for question in QUESTIONS:
        usual = question.usual(answers.values) / _UNITS[question.unit]
        shown = f"{usual:.4g}"
        text = ask(f"{question.text}, {question.unit}", shown)
        if text.strip() == shown:
            answers.guess(question)
        else:
            answers.put(question, text, "answer")
    return answers


def _checked_size(size: str, where: str) -> str:
    try:
        tyre_dimensions(size)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return size


# ---- writing ---------------------------------------------------------------------------------------------------------


def vehicle_text(answers: Answers, name: str) -> str:
    """The vehicle file; its tyre files are `name`_front.tir and `name`_rear.tir beside it."""
    figures = []
    for question in QUESTIONS:
        if question.key not in _ELSEWHERE:
            value = answers.values[question.key]
            what = (
                f"{question.text}: {value / _UNITS[question.unit]:.4g} {question.unit}, {answers.origin[question.key]}"
            )
            figures.append(f"{f'{question.key} = {value:.6g}':<34}# {what}")
    text = TEMPLATE.read_text(encoding="utf-8")
    body = text[text.index(_HEAD) :]
    for key, (value, why) in _scaled(answers).items():
        body = re.sub(rf"(?m)^{key} = .*$", f"{f'{key} = {value:.5g}':<34}# {why}", body)
    for key in _REPLACED:
        body = re.sub(
            rf"(?m)^({key} = [^#\n]*).*$", r"\1# of the template; replaced by what follows from [figures]", body
        )
    lines = [
        f"# {name}: a car from the figures of its data sheet. `tandem vehicle report` says what follows from them.",
        "# Whatever is not in [figures] is of the template, the shipped buggy: suspension (moved to this wheelbase and",
        "# these tracks), engine, gearbox, dampers (scaled). Drive is on the rear wheels. [figures] is in SI.",
        "",
        'machine = "buggy"',
        *(f'tyre_{axle} = "{name}_{axle}.tir"' for axle in ("front", "rear")),
        "",
        "[figures]",
        *figures,
        "",
    ]
    return "\n".join(lines) + "\n" + body


_ELSEWHERE = ("drag_area", "understeer_gradient")  # in [parameters], in the tyres
_REPLACED = (
    "sprung_mass", "sprung_cg_x", "sprung_cg_z", "sprung_i..", "front_spring_rate", "front_spring_length",
    "rear_spring_rate", "rear_spring_length", "front_damper_bump", "front_damper_rebound", "rear_damper_bump",
    "rear_damper_rebound", "stop_rate", "front_anti_roll", "rear_anti_roll", "rack_travel_per_turn",
)  # fmt: skip


def _scaled(answers: Answers) -> dict[str, tuple[float, str]]:
    """What [figures] does not have and a car of another mass has otherwise."""
    of = tomllib.loads(TEMPLATE.read_text(encoding="utf-8"))["parameters"]
    more, wider = answers.values["mass"] / _MASS, tyre_dimensions(answers.size)[0] / _RADIUS
    masses = [key for key in of if key.endswith("_mass") and key not in ("sprung_mass", "rack_mass")]
    found = {key: (of[key] * more, "kg       estimate: the template's by mass") for key in masses}
    for key in ("front_knuckle_inertia", "rear_knuckle_inertia"):
        found[key] = of[key] * more, "kg m2    estimate: the template's by mass"
    for key in ("wheel_spin_inertia", "wheel_transverse_inertia"):
        found[key] = of[key] * more * wider**2, "kg m2    estimate: the template's by mass and radius"
    torque = (of["brake_front"] + of["brake_rear"]) * more * wider
    values = answers.values
    front = values["front_share"] + _LOCK_TOGETHER * values["cg_height"] / values["wheelbase"]
    for key, share in (("brake_front", front), ("brake_rear", 1.0 - front)):
        found[key] = torque * max(share, 0.05), f"N m/bar  estimate: both axles lock at {_LOCK_TOGETHER:g} g"
    found["drag_area"] = answers.values["drag_area"], f"m2       {answers.origin['drag_area']}"
    return found


def tyre_text(answers: Answers, share: float = 1.0) -> str:
    """The shipped tyre, of this size and for these loads, with a share of its lateral slip stiffness."""
    radius, width, aspect, rim = tyre_dimensions(answers.size)
    more = answers.values["mass"] / _MASS
    # of a lower side wall; an estimate through public files of 80, 55, 47 and 40 % (docs/results/tyres.md)
    stiffer, lower = math.sqrt(_ASPECT / aspect), _ASPECT - aspect
    text = TYRE.read_text(encoding="utf-8")
    new = {
        "UNLOADED_RADIUS": f"{radius:.4f}", "WIDTH": f"{width:.3f}", "ASPECT_RATIO": f"{0.01 * aspect:.2f}",
        "RIM_RADIUS": f"{rim:.4f}", "RIM_WIDTH": f"{0.8 * width:.4f}", "FNOMIN": f"{_LOAD * more:.0f}",
        "VERTICAL_STIFFNESS": f"{165000 * more:.0f}", "VERTICAL_DAMPING": f"{500 * more:.0f}",
        "FZMIN": f"{200 * more:.0f}", "FZMAX": f"{6500 * more:.0f}",
        "PKX1": f"{20.0 * stiffer:.1f}", "PKY1": f"{-14.5 * stiffer:.1f}",
        "PDX1": f"{0.98 + 0.005 * lower:.3f}", "PDY1": f"{0.93 + 0.0035 * lower:.3f}",
    }  # fmt: skip
    body = text[text.index("[MDI_HEADER]") :]
    for key, value in new.items():
        body = re.sub(rf"(?m)^({key} +=) [^ \n]+(.*)$", rf"\1 {value}\2", body)
    head = [
        f"$ A {answers.size} tyre: the shipped estimate for a small car, of this size and for these loads, not",
        "$ measured. Loads and vertical stiffness go with the car's mass, slip stiffness with the root of 80 over",
        "$ aspect ratio, friction up as that goes down. A file of the real tyre, or one fitted to rows of a rig",
        "$ (tandem tyre fit), is better.",
    ]
    axle = [
        "[SCALING_COEFFICIENTS]",
        f"LKY                  = {share:<12.5g}$        for the understeer gradient: what steering and bushings give",
    ]
    return "\n".join([*head, body.rstrip("\n"), *axle]) + "\n"


def impossible(answers: Answers, rigid: float) -> ConfigError:
    unit = _UNITS["deg/g"]
    return ConfigError(
        f"understeer_gradient = {answers.values['understeer_gradient'] / unit:.3g} deg/g: a rigid car of these figures"
        f" has {rigid / unit:.2g} deg/g, too far from that; look at front_share, the roll rates and the unit"
    )
