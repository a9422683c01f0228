"""What machines bring to the program beside themselves: our modules by name. Other packages declare theirs as entry
points (sync/config/plugins.py). Machines, and how they are observed, are in sim_service/registry.py, devices in
daq_service/devices."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Demo:
    """Something that runs at once, with its page: `tandem demo NAME`."""

    words: tuple[str, ...]  # the command that it stands for
    text: str


DEMOS = {
    "drive": Demo(("drive", "drive"), "A buggy through town: its driver and sensors are emulated."),
    "wall": Demo(("run", "wall"), "A virtual wall under an emulated finger, at 5 kHz."),
    "piano": Demo(("run", "piano_page"), "A piano key, played from the page."),
    "omni": Demo(("run", "omni_page"), "A platform on four mecanum wheels, driven from the page."),
    "tilting": Demo(("run", "tilting_page"), "A narrow vehicle that leans into bends, driven from the page."),
    "kart": Demo(("run", "kart_track"), "A racing kart without suspensions, driven from the page."),
    "twin": Demo(("drive", "twin"), "A car and its twin: an observer estimates what no sensor measures."),
    "mechanism": Demo(("view", "mechanisms/four_bar"), "A linkage to hold, to drag and to change."),
    "robot": Demo(("run", "arm"), "A robot of six hinges, held against gravity by computed torque."),
    "stewart": Demo(("view", "mechanisms/stewart"), "A platform on six driven legs, to push and to load."),
}
# the file that a machine's name alone stands for, where tandem ships several
FILES = {"single_track": "vehicles/buggy_single_track.toml"}
# of commands: COMMANDS, a tuple of `Brought` (tandem/console/help_text.py)
COMMANDS = {
    machine: f"tandem.machines.{machine}.commands" for machine in ("car", "fmu", "observer", "omni", "piano", "wall")
}
# of `tandem doctor`: ROWS, a `Rows` (tandem/doctor/findings.py)
DOCTOR = {"car": "tandem.machines.car.doctor"}
# by the machine that runs, where a hand is in its loop and another law than the standard one: how stiff it may be then,
# `held_down` (tandem/doctor/haptics.py)
HAPTIC = {"wall": "tandem.machines.wall.studies.held"}
# by the machine that runs, of its report: REPORT, an `Own` (tandem/live/reported.py)
REPORTS = dict.fromkeys(("buggy", "single_track", "swerve"), "tandem.machines.car.report")
# by manoeuvre.kind of a study: gather(...) and prepare(context) (tandem/ensembles/manoeuvres.py)
MANOEUVRES = {
    "lane-change": "tandem.machines.car.studies.iso.ensemble_lanes",
    "iso": "tandem.machines.car.studies.iso.ensemble",
}
