"""What every model of a piano key takes and gives, by the same names: what a finger and an actuator meet, and strikes,
of which `tandem notes`, live MIDI and the page make notes. What reads one model reads the other."""

from sim_service.contract.display import Curve, Display, Sound, Tile
from sim_service.contract.machine import Parameter, Quantity

REGULATION = "regulation"  # the group of parameters that a regulator of pianos turns
PHASES = ("acceleration", "let-off", "catch", "reset")
INPUTS = (
    Quantity("position", "m", "of the front of the key, down is positive"),
    Quantity("velocity", "m/s", "likewise; not measured: the difference of two positions", optional=True),
)
FORCES = (
    Quantity("tip_force", "N", "at the front of the key, against the finger; the key's inertia included"),
    Quantity(
        "pilot_force", "N", "at the capstan: of the key on the action, the key's own inertia and weight taken off"
    ),
)
PORT = Quantity("port", "m", "position of the measured key, as it was used")
HAMMER = Quantity("hammer", "rad", "angle of the hammer, 0 as in the source")
PHASE = Quantity("phase", "1", "0 acceleration, 1 let-off, 2 catch, 3 reset; of a small object its submodel")
STRIKES = (
    Quantity("strike_count", "1", "of the hammer on the string"),
    Quantity("strike_speed", "m/s", "of the hammer's head, the last time"),
    Quantity("strike_age", "s", "since then, at the end of the step"),
    Quantity("sounding", "1", "1 from a strike until the damper is back"),
)
ENERGY = (
    Quantity("work_done", "J", "on the action, by the measured key"),
    Quantity("energy_error", "J", "stored beyond what came in and was not lost"),
)
NOTE = Parameter("note", "1", 60.0, 0.0, 127.0, "that the string sounds, as MIDI numbers it", live=False)

DISPLAY = Display(
    hands=(Tile("key", "position", "mm", 1e3, 2, full=0.01),),
    figures=(
        Tile("felt", "tip_force", "N", 1.0, 2), Tile("at the capstan", "pilot_force", "N", 1.0, 2),
        Tile("phase", "phase", digits=0, words=PHASES),
        Tile("hammer", "hammer", "deg", 57.29578, 1),
        Tile("strikes", "strike_count", "", 1.0, 0), Tile("last strike", "strike_speed", "m/s", 1.0, 2),
        Tile("energy error", "energy_error", "mJ", 1e3, 3),
    ),
    curves=(Curve("force over travel", "port", "tip_force", 1e3, "mm", y_unit="N"),),
    sounds=(Sound("strike_count", "strike_speed", "note"),),
    tuned=REGULATION,
    plots=(("tip_force", "port"), ("hammer", "phase"), ("pilot_force", "strike_speed")),
)  # fmt: skip
