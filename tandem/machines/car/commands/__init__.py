"""What the car brings to the command line."""

from tandem.console.help_text import RUN, Brought
from tandem.machines.car.commands.iso import iso
from tandem.machines.car.commands.steering import caster, caster_trials, steering
from tandem.machines.car.commands.tyre import tyre_compare, tyre_fit, tyre_show
from tandem.machines.car.commands.vehicle import drive, vehicle_new, vehicle_report

COMMANDS = (
    Brought("drive", drive, RUN),
    Brought("iso", iso),
    Brought("tyre show", tyre_show),
    Brought("tyre compare", tyre_compare),
    Brought("tyre fit", tyre_fit),
    Brought("vehicle new", vehicle_new),
    Brought("vehicle report", vehicle_report),
    Brought("study caster", caster),
    Brought("study caster-trials", caster_trials),
    Brought("study steering", steering),
)
