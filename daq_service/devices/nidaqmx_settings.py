"""`[source]` of the nidaqmx source: the device, and for each channel which of its inputs it is sampled from."""

import re
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from daq_service.devices.contract import DeviceSettings
from daq_service.devices.nidaqmx_driver import on_loopback, require
from sync.config.toml import CHOICE, Section

_NUMBER = r"(0|[1-9]\d*)"
_AI, _COUNTER = re.compile(f"ai{_NUMBER}"), re.compile(f"ctr{_NUMBER}")
INPUTS = 'an analog input, such as "ai0", or the counter of an encoder, such as "ctr0"'


class _Wiring(Section):
    input: str = Field("", validate_default=True)  # of the device: ai0, ctr0

    @field_validator("input")
    @classmethod
    def _is_an_input(cls, name: str) -> str:
        if not (_AI.fullmatch(name) or _COUNTER.fullmatch(name)):
            raise ValueError(f"must be {INPUTS}")
        return name

    @model_validator(mode="before")
    @classmethod
    def _keys_of_its_kind(cls, data: Any) -> Any:
        other = EncoderInput if cls is AnalogInput else AnalogInput
        for key in data if isinstance(data, dict) else ():
            if key in other.model_fields and key not in cls.model_fields:
                own = ", ".join(name for name in cls.model_fields if name != "input")
                raise ValueError(f"{key} is for {other.noun()}; input = {data.get('input')!r} has {own}")
        return data

    @classmethod
    def noun(cls) -> str:
        return "an analog input" if cls is AnalogInput else "the counter of an encoder"


class AnalogInput(_Wiring):
    min_v: float = -5.0  # lowest voltage
    max_v: float = Field(5.0, gt=0)  # highest voltage
    full_counts: float = Field(32_767.0, gt=0)  # what max_v becomes
    terminals: Literal["default", "rse", "nrse", "diff", "pseudo_diff"] = "default"  # how it is wired

    @model_validator(mode="after")
    def _consistent(self) -> "AnalogInput":
        if self.min_v >= self.max_v:
            raise ValueError(f"min_v = {self.min_v:g} must be below max_v = {self.max_v:g}")
        return self


class EncoderInput(_Wiring):
    decoding: Literal["x1", "x2", "x4"] = "x4"  # edges that are counted
    pulses_per_rev: int = Field(500, ge=1)  # lines of the encoder
    a: str = ""  # input terminals where they are not the counter's usual ones, such as "/Dev1/PFI8"
    b: str = ""  # likewise, of B


def _kind(wiring: Any) -> str:
    name = wiring.get("input") if isinstance(wiring, dict) else getattr(wiring, "input", None)
    return CHOICE + ("encoder" if str(name).startswith("ctr") else "analog")


Wiring = Annotated[
    Annotated[AnalogInput, Tag(CHOICE + "analog")] | Annotated[EncoderInput, Tag(CHOICE + "encoder")],
    Discriminator(_kind),
]


class Settings(DeviceSettings):
    survives_fork = False

    kind: str
    device: str = "Dev1"  # as NI MAX or nilsdev names it
    # HOST:PORT of an NI gRPC device server; empty: the driver of this machine
    server: str = Field("", pattern=r"^$|^[^\s:]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$")
    server_ca: str = ""  # PEM file beside the configuration: the authority to trust for the server; turns TLS on
    server_certificate: str = ""  # PEM files: our certificate, for a server that asks for one
    server_key: str = ""  # likewise
    server_unencrypted: bool = False  # beyond the loopback without TLS: on a cable, or a network that you trust
    channels: dict[str, Wiring] = {}  # of daq.channels, all of them
    clock_input: str = Field("", pattern=f"^$|^ai{_NUMBER}$")  # without analog channels: converted for its clock only
    scans_per_read: int = Field(5, ge=1, le=4096)  # a read waits for so many
    buffer_s: float = Field(10.0, gt=0, le=600)  # of scans that wait for us before the device gives up
    back_off_first_s: float = Field(0.1, gt=0, le=60)  # between two attempts to reach a device that is gone
    back_off_most_s: float = Field(1.0, gt=0, le=60)  # then longer, at most so long
    effort: dict[str, Any] | None = None  # EffortSettings and `ao`

    @model_validator(mode="before")
    @classmethod
    def _a_table_a_channel(cls, data: Any) -> Any:
        if isinstance(data, dict) and (tables := _tables_of_flat_keys(data)):
            raise ValueError(f"every channel has a table of its own now: {'; '.join(tables)} (docs/nidaqmx.md)")
        return data

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        users: dict[str, str] = {}
        for name, wiring in self.channels.items():
            if wiring.input in users:
                raise ValueError(
                    f"channels.{users[wiring.input]} and channels.{name} both have input = {wiring.input!r}: every"
                    " channel needs an input of its own"
                )
            users[wiring.input] = name
        analog = [(name, w.input) for name, w in self.channels.items() if isinstance(w, AnalogInput)]
        if self.clock_input and analog:
            name, used = analog[0]
            raise ValueError(
                f"clock_input = {self.clock_input!r}: is only for channels that are all encoders; here the sample clock"
                f" is that of {used} ({name}): leave clock_input out"
            )
        if self.channels and not analog and not self.clock_input:
            raise ValueError(
                "clock_input: is missing: no channel is an analog input, and encoders are sampled on the clock of one;"
                ' give clock_input = "ai0", an input that is converted for its clock only'
            )
        if self.back_off_first_s > self.back_off_most_s:
            raise ValueError(
                f"back_off_first_s = {self.back_off_first_s:g} must not exceed back_off_most_s ="
                f" {self.back_off_most_s:g}"
            )
        if bool(self.server_certificate) != bool(self.server_key):
            raise ValueError("server_certificate and server_key: give both or neither")
        if self.server_key and not self.server_ca:
            raise ValueError("server_key without server_ca: with TLS the server must show who it is, too")
        if self.server and not (self.server_ca or self.server_unencrypted or on_loopback(self.server)):
            raise ValueError(
                f"server = {self.server!r} is not the loopback: give server_ca, the certificate that the server's own"
                " is signed with; server_unencrypted = true does without, on a cable or a network that you trust"
            )
        return self

    def require(self) -> None:
        require(self.server)


# ---- configurations of before ----------------------------------------------------------------------------------------
# NAME = "ai0", NAME_min_v, NAME_a, ...; decoding and pulses_per_rev once for all encoders

_FLAT = re.compile(r"(?P<name>\w+?)_(?P<key>min_v|max_v|full_counts|terminals|a|b)")


def _tables_of_flat_keys(data: dict[str, Any]) -> list[str]:
    """The tables that replace the earlier flat keys; none if there are no such keys."""
    tables: dict[str, dict[str, Any]] = {}
    shared = {}
    for key, value in data.items():
        if key in Settings.model_fields:
            continue
        if key in ("decoding", "pulses_per_rev"):
            shared[key] = value
        elif isinstance(value, str) and (_AI.fullmatch(value) or _COUNTER.fullmatch(value)):
            tables.setdefault(key, {})["input"] = value
        elif found := _FLAT.fullmatch(key):
            tables.setdefault(found["name"], {})[found["key"]] = value
    encoders = [t for t in tables.values() if _kind(t).endswith("encoder") or t.keys() & {"a", "b"}]
    if shared and not encoders:
        encoders.append(tables.setdefault("NAME", {}))
    for number, table in enumerate(encoders):
        table.update(shared)
        table.setdefault("input", f"ctr{number}")
    return [
        f"[source.channels.{name}] with "
        + ", ".join(f"{key} = {_toml(value)}" for key, value in ({"input": "ai0"} | table).items() if value != "")
        for name, table in tables.items()
    ]


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
