"""What a car brings to the report of a run: the path it drove, and where the speed went."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tandem.live.reported import Own

if TYPE_CHECKING:
    from tandem.reports.run_report import PageSection


def _sections() -> "Sequence[PageSection]":
    from tandem.machines.car.studies.vehicle.drive_report import SECTIONS

    return SECTIONS


REPORT = Own(("vx", "yaw_rate", "steering_angle"), _sections)  # which SECTIONS draw
