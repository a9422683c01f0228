"""Keys of a configuration that have another name now. A file that has an old one is refused with the new one; a record
is translated (sync/record/format_1.py)."""

RENAMED = {
    "sim.vehicle": "sim.machine",
    "sim.road": "sim.files.road",
    "source.steering_range_deg": "inputs.steering.per_count alone: what the device turns from end to end, over 65534",
    "source.wheel_deg_per_s": "source.controls.steering.rate_per_s",
    "source.steering_limit_deg": "source.controls.steering.least and .most",
    "source.let_go_brake_bar": "source.controls.brake.at_rest",
}
