"""What machines bring to the program beside themselves: our modules by machine. Other packages declare theirs as entry
points (sync/config/plugins.py). Machines are in sim_service/registry.py, devices in daq_service/devices."""

# of commands: COMMANDS, a tuple of `Brought` (tandem/console/help_text.py)
COMMANDS = {
    machine: f"tandem.machines.{machine}.commands" for machine in ("car", "fmu", "observer", "omni", "piano", "wall")
}
# of `tandem doctor`: ROWS, a `Rows` (tandem/doctor/findings.py)
DOCTOR = {"car": "tandem.machines.car.doctor"}
