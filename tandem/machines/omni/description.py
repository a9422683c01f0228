"""What a file of an omni machine says: a wheel, and either a test bench for it or a platform on several of them."""

from typing import Annotated, Literal

from pydantic import Field

from sim_service.contract.machine import Parameter, Quantity
from sync.config.toml import Section
from tandem.machines.omni.wheel import Wheel

Metres = Annotated[float, Field(ge=-10.0, le=10.0)]
MetresPerSecond = Annotated[float, Field(ge=-100.0, le=100.0)]


class WheelFile(Section):
    """[wheel]"""

    radius: float = Field(ge=1e-3, le=10.0)  # m
    distance: float  # m, from the wheel's centre to that of a roller
    rollers: int = Field(ge=3, le=40)
    psi_deg: float = 0.0
    alpha_deg: float | None = Field(None, gt=0.0, lt=90.0)  # None: 180 / rollers, which leaves no gap
    rows: int = Field(1, ge=1, le=2)
    row_offset: float = Field(0.0, ge=0.0, le=1.0)  # m
    roller_mass: float = Field(ge=1e-6, le=100.0)  # kg
    disk_mass: float = Field(ge=1e-6, le=1000.0)  # kg
    disk_inertia_axle: float = Field(ge=1e-12, le=1e4)  # kg m2, without rollers and with what turns with it
    disk_inertia_across: float = Field(ge=1e-12, le=1e4)  # kg m2
    roller_damping: float = Field(0.0, ge=0.0, le=1e3)  # N m s/rad, of its bearings
    axle_damping: float = Field(0.0, ge=0.0, le=1e3)  # N m s/rad

    def wheel(self, mirrored: bool = False) -> Wheel:
        alpha = 180.0 / self.rollers if self.alpha_deg is None else self.alpha_deg
        return Wheel(
            self.radius, self.distance, self.rollers, self.psi_deg, alpha, self.roller_mass, mirrored, self.rows,
            self.row_offset,
        )  # fmt: skip


class PlacedWheel(Section):
    """[[platform.wheels]]: where one is, and where its axle points, seen from above."""

    at: list[Metres] = Field(min_length=2, max_length=2)  # m, ahead and to the left
    axle_deg: float = Field(ge=-360.0, le=360.0)  # 90: to the left, so that the wheel rolls ahead
    mirrored: bool = False  # its rollers incline the other way


class PlatformFile(Section):
    """[platform]: what the wheels carry."""

    mass: float = Field(ge=1e-6, le=1e4)  # kg
    inertia: list[Annotated[float, Field(ge=1e-12, le=1e4)]] = Field(
        min_length=3, max_length=3
    )  # kg m2, about its centre: ahead, left, up
    centre: list[Metres] = Field([0.0, 0.0, 0.0], min_length=3, max_length=3)  # m, from the point between the axles
    wheels: list[PlacedWheel] = Field(min_length=3, max_length=8)


class RigFile(Section):
    """[bench]: how the wheel of a test bench starts."""

    height: float = Field(0.0, ge=0.0, le=100.0)  # m above the floor
    speed: list[MetresPerSecond] = Field([0.0, 0.0], min_length=2, max_length=2)  # m/s, of its centre
    spin: float = Field(0.0, ge=-1e3, le=1e3)  # rad/s, about its axle
    yaw_rate: float = Field(0.0, ge=-100.0, le=100.0)  # rad/s
    angle_deg: float = Field(0.0, ge=-360.0, le=360.0)  # of the wheel: 0 has a roller at the bottom


class OmniFile(Section):
    machine: str
    substeps: int = Field(1, ge=1, le=100)  # of a step
    corrections: int = Field(2, ge=0, le=10)  # of the velocity terms of a step
    sweeps: int = Field(200, ge=10, le=10_000)  # over all contacts, at most, for each correction
    tracking: Literal["support", "explicit", "implicit"] = "support"
    wheel: WheelFile
    platform: PlatformFile | None = None
    bench: RigFile | None = None
    parameters: dict[str, float] = {}


CONTACT_PARAMETERS = (
    Parameter("friction", "1", 0.6, 0.0, 10.0, "Coulomb's, between a roller and the floor", of_the_file=False),
    Parameter("restitution", "1", 0.0, 0.0, 1.0, "share of its speed with which what strikes the floor leaves it",
              of_the_file=False),
    Parameter("compliance", "m/N", 0.0, 0.0, 1e-3, "of a contact; 0: rigid", of_the_file=False),
    Parameter("gravity", "m/s2", 9.81, 0.0, 100.0, "downwards", of_the_file=False),
    Parameter("spin_reach", "m", 0.0, 0.0, 0.1, "arm of friction against spinning on the spot; 0: none. 3 pi/16 of the"
              " radius of a patch by Hertz, 2/3 under even pressure", of_the_file=False),
)  # fmt: skip
CONTROL_PARAMETERS = (
    Parameter("control", "1", 0.0, 0.0, 2.0, "0: speed of the wheels by inverse kinematics; 1: torques that correct the"
              " speed of the platform; 2: torques ahead of the command alone", of_the_file=False),
    Parameter("speed_gain", "N m s/rad", 1.0, 0.0, 1e3, "of a wheel's speed control", of_the_file=False),
    Parameter("platform_gain", "1/s", 4.0, 0.0, 100.0, "of the platform's speed control", of_the_file=False),
    Parameter("torque_limit", "N m", 5.0, 0.0, 1e4, "of a motor", of_the_file=False),
    Parameter("command_lag", "s", 0.1, 1e-3, 10.0, "with which a command is followed", of_the_file=False),
    Parameter("compensation", "1", 0.0, 0.0, 1.0, "share in which the speeds of wheels (control 0) are those of the"
              " place where the roller on the floor touches, and not of its middle", of_the_file=False),
)  # fmt: skip

RIG_INPUTS = (
    Quantity("torque_axle", "N m", "about the axle", optional=True),
    Quantity("force_x", "N", "at the wheel's centre, along x of the floor", optional=True),
    Quantity("force_y", "N", "… along y", optional=True),
    Quantity("force_z", "N", "… upwards", optional=True),
    Quantity("torque_z", "N m", "about the vertical", optional=True),
)
PLATFORM_INPUTS = (
    Quantity("command_ahead", "m/s", "speed of the platform ahead"),
    Quantity("command_left", "m/s", "… to the left"),
    Quantity("command_turn", "rad/s", "… about the vertical, to the left"),
)
BOOKS = (
    Quantity("books_open", "1", "1 once the books of energy are open"),
    Quantity("energy_at_start", "J", "kinetic and potential, where the books begin"),
    Quantity("work_done", "J", "by torques and forces on joints"),
    Quantity("friction_loss", "J", "by friction of contacts"),
    Quantity("impact_loss", "J", "by what strikes the floor"),
    Quantity("damping_loss", "J", "by dampers"),
    Quantity("last_speed", "m/s", "upwards, at the end of the last step: of roller 1 of a bench, of a platform"),
)
COMMON_OUTPUTS = (
    Quantity("kinetic", "J", "energy of all bodies"),
    Quantity("potential", "J", "energy"),
    Quantity("energy_error", "J", "energy that the books do not explain"),
    Quantity("work_done", "J", "by torques and forces on joints"),
    Quantity("friction_loss", "J", "by friction of contacts"),
    Quantity("impact_loss", "J", "by what strikes the floor"),
    Quantity("lowest_gap", "m", "of all rollers and the floor, at the middle of the last step"),
    Quantity("sweeps", "1", "over the contacts, for all corrections: the most of a part of the last step"),
    Quantity("unsolved", "1", "last change of an impulse over the largest one"),
)
RIG_OUTPUTS = (
    Quantity("x", "m", "of the wheel's centre"),
    Quantity("y", "m", "… to the left"),
    Quantity("z", "m", "… above the floor"),
    Quantity("yaw", "rad", "of the wheel about the vertical"),
    Quantity("angle", "rad", "of the wheel about its axle"),
    Quantity("speed_x", "m/s", "of the wheel's centre"),
    Quantity("speed_y", "m/s", "… to the left"),
    Quantity("speed_z", "m/s", "… upwards"),
    Quantity("yaw_rate", "rad/s", "about the vertical"),
    Quantity("spin", "rad/s", "about the axle"),
    Quantity("servo_torque", "N m", "lambda: what keeps the wheel upright"),
    Quantity("roller1_height", "m", "of the centre of roller 1"),
    Quantity("roller1_speed_z", "m/s", "of the centre of roller 1"),
    Quantity("roller1_accel_z", "m/s2", "… over the last step"),
    Quantity("roller1_spin_momentum", "kg m2/s", "of roller 1 about its own axis"),
)
PLATFORM_OUTPUTS = (
    Quantity("x", "m", "of the platform"),
    Quantity("y", "m", "… to the left"),
    Quantity("z", "m", "height of the axles"),
    Quantity("yaw", "rad", "of the platform"),
    Quantity("pitch", "rad", "nose down"),
    Quantity("roll", "rad", "to the right"),
    Quantity("speed_ahead", "m/s", "of the platform"),
    Quantity("speed_left", "m/s", "of the platform"),
    Quantity("turn_rate", "rad/s", "of the platform"),
    Quantity("accel_z", "m/s2", "of the platform, over the last step"),
    Quantity("ideal_x", "m", "where ideal kinematics has it, from the commands"),
    Quantity("ideal_y", "m", "… to the left"),
    Quantity("ideal_yaw", "rad", "… about the vertical"),
    Quantity("path_error", "m", "distance between both"),
)
# of a wheel, behind its name
WHEEL_OUTPUTS = (
    ("spin", "rad/s", "about its axle"),
    ("torque", "N m", "of its motor"),
    ("roller", "1", "that carries most, from 1; 0: none"),
    ("load", "N", "of the floor on its rollers"),
    ("force_x", "N", "of the floor, along x of the floor"),
    ("force_y", "N", "… along y"),
    ("slip", "m/s", "of the point that carries most, along the floor"),
    ("point_x", "m", "where it touches"),
    ("point_y", "m", "where it touches"),
)
