"""What machines bring to the program beside themselves: our modules by name. Other packages declare theirs as entry
points (sync/config/plugins.py). Machines, and how they are observed, are in sim_service/registry.py, devices in
daq_service/devices."""

# of commands: COMMANDS, a tuple of `Brought` (tandem/console/help_text.py)
COMMANDS = {
    machine: f"tandem.machines.{machine}.commands" for machine in ("car", "fmu", "observer", "omni", "piano", "wall")
}
# of `tandem doctor`: ROWS, a `Rows` (tandem/doctor/findings.py)
DOCTOR = {"car": "tandem.machines.car.doctor"}
# by the machine that runs, of its report: REPORT, an `Own` (tandem/live/reported.py)
REPORTS = dict.fromkeys(("buggy", "single_track", "swerve"), "tandem.machines.car.report")
# by manoeuvre.kind of a study: gather(...) and prepare(context) (tandem/ensembles/manoeuvres.py)
MANOEUVRES = {
    "lane-change": "tandem.machines.car.studies.iso.ensemble_lanes",
    "iso": "tandem.machines.car.studies.iso.ensemble",
}
