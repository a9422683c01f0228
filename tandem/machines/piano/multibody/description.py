"""What goes into the grand action and comes out of it."""

from sim_service.contract.machine import Parameter, Quantity
from tandem.machines.piano import port
from tandem.machines.piano.multibody.action import LINKS

INPUTS = (
    *port.INPUTS,
    Quantity("acceleration", "m/s2", "likewise; not measured: the difference of two velocities", optional=True),
)
BOOKS = (
    Quantity("work", "J", "done on the key against the action"),
    Quantity("felt_loss", "J", "taken by felt"),
    Quantity("friction_loss", "J", "taken by friction of surfaces"),
    Quantity("pivot_loss", "J", "taken by pivots"),
    Quantity("stored", "J", "in felt and springs"),
    Quantity("kinetic", "J", "of all links but the key"),
    Quantity("potential", "J", "of all links but the key"),
)
STATES = (
    *(Quantity(name, "rad", "angle; of jack and lever against the whippen") for name in LINKS),
    *(Quantity(f"{name}_rate", "rad/s", "its rate") for name in LINKS),
    *BOOKS,
    Quantity("begun", "1", "1 from when the key is where it is measured, 0.5 on its way there from rest"),
    Quantity("energy_at_start", "J", "of all links but the key, and stored"),
    Quantity("last_speed", "m/s", "of the tip, a step before"),
    Quantity("elapsed", "s", "since the start"),
    Quantity("struck", "1", "blows on the string"),
    Quantity("struck_at", "s", "instant of the last one"),
    Quantity("struck_speed", "m/s", "of the hammer's head then"),
    Quantity("on_string", "1", "1 while the hammer is there"),
    Quantity("undamped", "1", "1 from a blow on until the damper is back"),
    Quantity("tripped", "1", "1 from when the hammer has left the jack at let-off until the jack is back at its stop"),
)
OUTPUTS = (
    *port.FORCES,
    port.PORT,
    port.HAMMER,
    Quantity("hammer_speed", "m/s", "of its head, upwards"),
    Quantity("whippen_angle", "rad", "of the whippen"),
    Quantity("jack_angle", "rad", "against the whippen, 0 at its stop"),
    Quantity("lever_angle", "rad", "against the whippen, 0 at its stop"),
    Quantity("head_force", "N", "of the jack on the knuckle"),
    Quantity("toe_force", "N", "of the let-off button on the jack"),
    Quantity("lever_force", "N", "of the repetition lever on the knuckle"),
    Quantity("drop_force", "N", "of the drop screw on the lever"),
    Quantity("check_force", "N", "of the back-check on the hammer"),
    Quantity("string_force", "N", "of the hammer on the string"),
    Quantity("damper_force", "N", "of the damper on the key"),
    Quantity("rail_force", "N", "of the front rail on the key, at the tip"),
    port.PHASE,
    *port.STRIKES,
    *port.ENERGY,
)
PARAMETERS = (
    Parameter(
        "let_off_button", "m", 0.0514, 0.045, 0.056, "height of the button above the key's pivot", group=port.REGULATION
    ),
    Parameter(
        "knuckle_edge",
        "m",
        0.0148,
        0.005,
        0.02,
        "from the hammer's pivot to where the jack slips off",
        group=port.REGULATION,
    ),
    Parameter(
        "string_angle", "rad", 0.0495, -0.1, 0.3, "of the hammer where it meets the string", group=port.REGULATION
    ),
    Parameter("drop_screw", "m", 0.0832, 0.05, 0.2, "height of its tip above the key's pivot", group=port.REGULATION),
    Parameter(
        "repetition_height", "m", 0.00605, 0.0, 0.012, "of the lever's surface above its pivot", group=port.REGULATION
    ),
    Parameter("repetition_spring", "N m", 0.048, 0.0, 0.2, "of the lever at its stop", group=port.REGULATION),
    Parameter("repetition_stiffness", "N m/rad", 0.35, 0.0, 10.0, "of the lever's spring", group=port.REGULATION),
    Parameter("jack_spring", "N m", 0.006, 0.0, 0.1, "of the jack at its stop", group=port.REGULATION),
    Parameter(
        "back_check",
        "m",
        2e-4,
        -0.02,
        0.05,
        "by which the back-check is bent away from the hammer",
        group=port.REGULATION,
    ),
    Parameter("key_dip", "m", 0.0095, 0.002, 0.02, "of the tip until the front rail", group=port.REGULATION),
    Parameter("damper", "1", 1.0, 0.0, 1.0, "1 with damper, 0 without", group=port.REGULATION),
    Parameter(
        "damper_travel", "m", 0.0045, 0.0, 0.02, "of the tip at which the key meets the damper", group=port.REGULATION
    ),
    Parameter("hammer_mass_added", "kg", 0.0, -0.006, 0.02, "a mass at the hammer's head", group=port.REGULATION),
    Parameter("knuckle_friction", "1", 0.10, 0.0, 1.0, "of the jack's head under the knuckle"),
    Parameter("felt_stiffness", "1", 1.0, 0.05, 20.0, "factor on all felt"),
    Parameter("felt_damping", "1", 1.0, 0.0, 10.0, "factor on the loss in felt"),
    Parameter("surface_friction", "1", 1.0, 0.0, 5.0, "factor on the friction of all surfaces"),
    Parameter("pivot_friction", "1", 1.0, 0.0, 10.0, "factor on the friction of all pivots"),
    Parameter("gravity", "m/s2", 9.81, 0.0, 20.0, ""),
    port.NOTE,
)
