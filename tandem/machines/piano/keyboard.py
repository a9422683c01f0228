"""Thirteen keys, C to C, in one process, whatever the model of a key: what goes in, what comes out, how it is shown."""

from sim_service.contract.display import Display, Sound, Tile
from sim_service.contract.machine import Efforts, Parameter, Quantity, places
from tandem.machines.piano import port

KEYS = 13
NAMES = tuple(f"key{k + 1}" for k in range(KEYS))
OF_KEY = (port.FORCES[0], port.PHASE, port.HAMMER, *port.STRIKES, port.ENERGY[1])
PER_KEY = len(OF_KEY)
W = places("W", OF_KEY)  # of one key
OUTPUTS = tuple(Quantity(f"{name}_{q.name}", q.unit, q.text) for name in NAMES for q in OF_KEY)
TAPER = Parameter("hammer_taper", "kg", 1e-4, 0.0, 1e-3, "by which a hammer is lighter than the one before")
NOTE = Parameter("note", "1", 60.0, 0.0, 115.0, "of the first key, as MIDI numbers it", live=False)
EFFORTS = Efforts(tuple(f"{name}_tip_force" for name in NAMES))
DISPLAY = Display(
    hands=tuple(Tile(name, f"{name}_position", "mm", 1e3, 1, full=0.01) for name in NAMES),
    figures=(
        Tile("felt, key 1", "key1_tip_force", "N", 1.0, 2),
        Tile("strikes", "key1_strike_count", "", 1.0, 0),
    ),
    sounds=tuple(Sound(f"{name}_strike_count", f"{name}_strike_speed", "note", k) for k, name in enumerate(NAMES)),
    plots=(("key1_tip_force", "key1_position"), ("key1_hammer", "key8_hammer")),
)


def of_every_key(each: Quantity, text: str = "") -> tuple[Quantity, ...]:
    return tuple(Quantity(f"{name}_{each.name}", each.unit, text or each.text, each.optional) for name in NAMES)
