"""The file of a machine that is an FMU."""

from pydantic import Field

from sync.config.toml import Section

XML, HASH = "fmu.xml", "fmu.sha256"  # their names in a record


class FmuFile(Section):
    machine: str
    file: str = Field(min_length=1)
    inputs: dict[str, str] | None = None
    outputs: dict[str, str] | None = None
    parameters: dict[str, float] = {}
