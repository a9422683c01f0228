"""modelDescription.xml and model_data.h: what a machine's description says, for an importer and for the compiler."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr, unescape

import numpy as np

from sim_service.contract.machine import Machine
from tandem.fmu.layered import distinct, unit_element


@dataclass(frozen=True)
class Model:
    """A machine as it stands: its values and its start."""

    machine: Machine
    identifier: str
    params: np.ndarray
    state: np.ndarray
    outputs: np.ndarray
    step_s: float
    has_rates: bool = False  # Model Exchange too
    has_tangent: bool = False  # and directional derivatives
    continuous: int = 0  # of its states, the first, which are integrated then
    time_at: int = -1  # of its states: the instant, where its rates depend on it
    code: tuple[str, ...] = ()  # symbols whose addresses belong into the tables, at `machine.placed.addresses`

    @property
    def live(self) -> list[int]:
        """Places of the parameters that may change between two steps; the others have shaped the machine."""
        return [k for k, parameter in enumerate(self.machine.parameters) if parameter.live]

    @property
    def inputs(self) -> np.ndarray:
        return np.array([np.nan if q.optional else 0.0 for q in self.machine.inputs])

    @property
    def token(self) -> str:
        content = (data(self, ""), [q.name for q in (*self.machine.inputs, *self.machine.outputs)])
        found = hashlib.sha256(repr(content).encode()).hexdigest()
        return f"{{{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:32]}}}"


def identifier(name: str) -> str:
    """As C and FMI take one."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    return found if re.match(r"[A-Za-z_]", found) else f"_{found}"


# ---- for the compiler ------------------------------------------------------------------------------------------------


def _numbers(name: str, values: np.ndarray, kind: str = "const ") -> str:
    """By their bits: nothing is rounded."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64).tolist() or [0]
    words = ", ".join(f"0x{word:x}" for word in bits)
    return f"static {kind}union {{ uint64_t bits[{len(bits)}]; double number[{len(bits)}]; }} {name} = {{{{{words}}}}};"


def data(model: Model, token: str) -> str:
    machine, live = model.machine, model.live
    ints, floats = machine.tables.ints.tolist() or [0], machine.tables.floats.copy()
    floats[list(machine.placed.addresses)] = 0.0
    sizes = {
        "INPUTS": len(machine.inputs), "OUTPUTS": len(machine.outputs), "PARAMS": len(model.params), "LIVE": len(live),
        "STATES": len(machine.states), "WORK": machine.work_size, "INTS": machine.tables.ints.size,
        "FLOATS": machine.tables.floats.size,
    }  # fmt: skip
    limits = [(machine.parameters[k].low, machine.parameters[k].high) for k in live]
    lines = [f"#define N_{name} {size}" for name, size in sizes.items()]
    lines += [
        f"#define HAS_OPTIONAL {int(any(q.optional for q in machine.inputs))}",
        f"#define HAS_RATES {int(model.has_rates)}",
        f"#define HAS_TANGENT {int(model.has_tangent)}",
        f"#define N_CONTINUOUS {model.continuous}",
        f"#define TIME_AT {model.time_at}",
        f"#define STEP_SIZE {float(model.step_s).hex()}",
        f"#define BOUND {float(machine.stepping.bound).hex()}",
        f'#define TOKEN "{token}"',
        f"static const int32_t model_ints[] = {{{', '.join(map(str, ints))}}};",
        f"static const int model_live[] = {{{', '.join(map(str, live or [0]))}}};",
        f"#define N_CODE {len(model.code)}",
        *(f"extern char {symbol}[];" for symbol in model.code),
        f"static char *const model_code[] = {{{', '.join(model.code) or 'NULL'}}};",
        f"static const int model_code_at[] = {{{', '.join(map(str, machine.placed.addresses)) or 0}}};",
        _numbers("model_floats", floats, "" if model.code else "const "),
        _numbers("model_params", model.params),
        _numbers("model_state", model.state),
        _numbers("model_outputs", model.outputs),
        _numbers("model_inputs", model.inputs),
        _numbers("model_low", np.array([low for low, _ in limits])),
        _numbers("model_high", np.array([high for _, high in limits])),
    ]
    return "\n".join(lines) + "\n"


# ---- for an importer -------------------------------------------------------------------------------------------------


def _truth(holds: bool) -> str:
    return "true" if holds else "false"


def description(model: Model, token: str, tool: str) -> str:
    machine = model.machine
    variables = list(_variables(model))
    units = sorted({unescape(unit) for unit in re.findall(r' unit="([^"]*)"', "".join(variables))})
    first_output = 1 + len(machine.inputs)
    outputs = range(first_output, first_output + len(machine.outputs))
    step = repr(float(model.step_s))
    first_rate = 1 + len(machine.inputs) + len(machine.outputs) + len(model.live) + len(machine.states)
    rates = range(first_rate, first_rate + model.continuous) if model.has_rates else ()
    exchange = (
        f'  <ModelExchange modelIdentifier={quoteattr(model.identifier)} canGetAndSetFMUState="true"'
        f" needsCompletedIntegratorStep={quoteattr(_truth(model.continuous < len(machine.states)))}"
        f' canSerializeFMUState="true" providesDirectionalDerivatives={quoteattr(_truth(model.has_tangent))}/>',
    )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<fmiModelDescription fmiVersion="3.0" modelName={quoteattr(machine.name)}'
        f" instantiationToken={quoteattr(token)} generationTool={quoteattr(tool)}"
        ' variableNamingConvention="flat">',
        *exchange * model.has_rates,
        f'  <CoSimulation modelIdentifier={quoteattr(model.identifier)} canGetAndSetFMUState="true"'
        f' canSerializeFMUState="true" canHandleVariableCommunicationStepSize="true" fixedInternalStepSize="{step}"/>',
        "  <UnitDefinitions>",
        *(f"    {unit_element(unit)}" for unit in units),
        "  </UnitDefinitions>",
        '  <LogCategories><Category name="logStatusError"/></LogCategories>',
        f'  <DefaultExperiment startTime="0" stepSize="{step}"/>',
        "  <ModelVariables>",
        *(f"    {variable}" for variable in variables),
        "  </ModelVariables>",
        "  <ModelStructure>",
        *(f'    <Output valueReference="{k}"/>' for k in outputs),
        *(f'    <ContinuousStateDerivative valueReference="{k}"/>' for k in rates),
        *(f'    <InitialUnknown valueReference="{k}"/>' for k in (*outputs, *rates)),
        "  </ModelStructure>",
        "</fmiModelDescription>",
    ]
    if not units:
        lines = [line for line in lines if "UnitDefinitions" not in line]
    return "\n".join(lines) + "\n"


def _variables(model: Model) -> Iterator[str]:
    machine, reference = model.machine, 0
    taken: set[str] = {"time"}

    def variable(name: str, unit: str, text: str, **more: str) -> str:
        nonlocal reference
        name = distinct(name, taken)
        attributes = {"name": name, "valueReference": str(reference), **more, "description": text}
        if unit not in ("", "1"):
            attributes["unit"] = unit
        reference += 1
        written = " ".join(f"{key}={quoteattr(value)}" for key, value in attributes.items())
        return f"<Float64 {written}/>"

    taken.discard("time")
    yield variable("time", "s", "Time", causality="independent", variability="continuous")
    for quantity, start in zip(machine.inputs, model.inputs, strict=True):
        start_text = "NaN" if np.isnan(start) else repr(float(start))
        yield variable(
            quantity.name, quantity.unit, quantity.text, causality="input", variability="continuous", start=start_text
        )
    for quantity in machine.outputs:
        yield variable(quantity.name, quantity.unit, quantity.text, causality="output", variability="continuous")
    for k in model.live:
        parameter = machine.parameters[k]
        limits = {"min": parameter.low, "max": parameter.high}
        bounds = {key: repr(float(value)) for key, value in limits.items() if np.isfinite(value)}
        yield variable(
            f"parameters.{parameter.name}", parameter.unit, parameter.text, causality="parameter",
            variability="tunable", **bounds, start=repr(float(model.params[k])),
        )  # fmt: skip
    first_state = reference
    for k, (quantity, start) in enumerate(zip(machine.states, model.state, strict=True)):
        integrated = model.has_rates and k < model.continuous
        begins = {"initial": "exact", "start": repr(float(start))} if integrated else {}
        yield variable(
            f"states.{quantity.name}", quantity.unit, quantity.text, causality="local", variability="continuous",
            **begins,
        )  # fmt: skip
    for k, quantity in enumerate(machine.states[: model.continuous] if model.has_rates else ()):
        unit = f"{quantity.unit}/s" if quantity.unit not in ("", "1") else "1/s"
        yield variable(
            f"der(states.{quantity.name})", unit, f"Rate of states.{quantity.name}", causality="local",
            variability="continuous", derivative=str(first_state + k),
        )  # fmt: skip
