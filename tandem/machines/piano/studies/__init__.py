"""`tandem study piano`: a key pressed, regulated, struck and repeated, offline (docs/piano.md)."""

from collections.abc import Callable

from tandem.machines.piano.studies import instrument, measured, models, multibody, phases, sensitivity, strokes
from tandem.machines.piano.studies.study import Studies, Study

PARTS: dict[str, Studies] = {
    "phases": phases.STUDIES,
    "multibody": multibody.STUDIES,
    "strokes": strokes.STUDIES,
    "measured": measured.STUDIES,
    "models": models.STUDIES,
    "sensitivity": sensitivity.STUDIES,
    "instrument": instrument.STUDIES,
}


def examine(parts: list[str], say: Callable[[str, float], None]) -> list[Study]:
    """Of several parts a study's name says which it is of."""
    requested = [(part, name, *each) for part in parts for name, each in PARTS[part].items()]
    found = []
    for k, (part, name, title, measure) in enumerate(requested):
        say(f"{part}: {name}", k / len(requested))
        study = Study(f"{part}-{name}", f"{title} ({part})")
        measure(study)
        found.append(study)
    return found
