"""Configurations that were recorded when the path knew one machine, a car, as those of any machine.

Until inputs were rows of a table, a configuration had `[sim.signals]`, the calibration of the hand wheel and the pedals
of a car, and `[sim.stale.<channel>]`, what became of each. Until any machine could be named, it had `sim.vehicle` and
`sim.road`, and the record the file `vehicle.toml`, which named a `model`. This file, and nothing else, knows what they
meant.
"""

import re
from collections.abc import Mapping
from typing import Any

_SLACK = 0.25  # of its range a pedal might be beyond its ends before that was reported
_SIGNALS = {
    "steering_estimator": "kalman", "differentiator": 4, "steering_deg_per_count": 0.18, "steering_sign": 1,
    "steering_zero_counts": 0.0, "throttle_full_counts": 420.0, "throttle_zero_counts": 0.0,
    "brake_full_counts": 32767.0, "brake_zero_counts": 0.0, "brake_full_bar": 40.0, "steering_most_deg": 1800.0,
    "brake_most_bar": 250.0,
}  # fmt: skip
_DEG = 57.29577951308232
TILES = [  # what was shown of a car, when a record did not say
    {"channel": "steering_angle", "title": "steering", "unit": "deg", "factor": _DEG},
    {"channel": "throttle", "title": "throttle", "unit": "%", "factor": 100.0},
    {"channel": "brake_pressure_bar", "title": "brake", "unit": "bar", "factor": 1.0},
    {"channel": "vx", "title": "speed", "unit": "km/h", "factor": 3.6},
    {"channel": "yaw_rate", "title": "yaw rate", "unit": "deg/s", "factor": _DEG},
    {"channel": "ay", "title": "lateral acc.", "unit": "m/s²", "factor": 1.0},
]


def _rows(signals: dict[str, Any], stale: dict[str, Any]) -> dict[str, Any]:
    s = {**_SIGNALS, **signals}
    policies: dict[str, dict[str, Any]] = {"steering": {}, "throttle": {"ramp_ms": 500.0}, "brake": {}}
    for name, policy in policies.items():
        given = stale.get(name, {})
        policy |= {{"safe_deg": "safe", "safe_bar": "safe"}.get(key, key): value for key, value in given.items()}
    return {
        "steering": {
            "channel": "steering", "kind": "encoder", "unit": "deg", "estimator": s["steering_estimator"],
            "differentiator": s["differentiator"], "per_count": s["steering_deg_per_count"],
            "sign": s["steering_sign"], "zero_counts": s["steering_zero_counts"],
            "least": -s["steering_most_deg"], "most": s["steering_most_deg"],
            "to": ["steering_angle", "steering_speed", "steering_acceleration"], "stale": policies["steering"],
        },
        "throttle": {
            "channel": "throttle", "kind": "affine", "full_counts": s["throttle_full_counts"],
            "zero_counts": s["throttle_zero_counts"], "least": 0.0, "most": 1.0, "tolerance_below": _SLACK,
            "tolerance_above": _SLACK, "to": ["throttle"], "stale": policies["throttle"],
        },
        "brake": {
            "channel": "brake", "kind": "affine", "unit": "bar", "full_counts": s["brake_full_counts"],
            "zero_counts": s["brake_zero_counts"], "full": s["brake_full_bar"], "least": 0.0,
            "most": s["brake_most_bar"], "tolerance_below": _SLACK * s["brake_full_bar"],
            "to": ["brake_pressure_bar"], "stale": policies["brake"],
        },
    }  # fmt: skip


def translated(settings: dict[str, Any], model: str) -> dict[str, Any]:
    """A recorded configuration, with rows where it had channels; `model` is what its machine was called. An invalid
    one stays as it is: its validation reports what is wrong."""
    try:
        sim = dict(settings["sim"])
        signals, stale = dict(sim.pop("signals", {})), dict(sim.get("stale", {}))
        rows = _rows(signals, stale)
        sim["stale"] = {key: value for key, value in stale.items() if key not in rows}
        if model == "single_track":  # the buggy had ratios of its own
            ratios = {key: signals[key] for key in ("gear_ratio", "final_ratio") if key in signals}
            sim["parameters"] = ratios | dict(sim.get("parameters", {}))
    except (LookupError, TypeError, ValueError, AttributeError):
        return settings
    return {**settings, "inputs": rows, "sim": sim}


def with_machine(settings: dict[str, Any]) -> dict[str, Any]:
    """A recorded configuration that names a vehicle and a road, as one that names a machine and its files."""
    sim = settings.get("sim")
    if not isinstance(sim, dict) or "vehicle" not in sim:
        return settings
    other_settings = {key: value for key, value in sim.items() if key not in ("vehicle", "road")}
    road = sim.get("road")
    settings = {
        **settings,
        "sim": {**other_settings, "machine": sim["vehicle"], "files": {"road": road} if road else {}},
    }
    source = settings.get("source")
    if isinstance(source, dict) and isinstance(source.get("effort"), dict):
        effort = {"channel": "steering_torque", **source["effort"]}
        settings["source"] = {**source, "effort": effort}
    return settings


def machine_files(attachments: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a machine was made from, by the names of today; attachments that have them are left as they are."""
    found = dict(attachments)
    if "machine.toml" not in found and "vehicle.toml" in found:
        found["machine.toml"] = re.sub(rb"(?m)^model(?=\s*=)", b"machine", found.pop("vehicle.toml"), count=1)
    return found
