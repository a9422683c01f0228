"""The buggy's proposed figures, as the references read them (SI; left side; ISO 8855)."""

from typing import Any

BUGGY: dict[str, Any] = {
    "wheelbase": 2.25,
    "track_front": 1.32,
    "track_rear": 1.34,
    "tyre": {
        "free_radius": 0.2891,
        "loaded_radius_design": 0.275,
        "vertical_stiffness": 165000.0,
        "vertical_damping": 500,
    },
    "masses": {
        "sprung": 690.0,
        "unsprung_front_corner": 24.0,
        "unsprung_rear_corner": 26.0,
        "total": 790.0,
        "sprung_cg": [-1.305, 0, 0.5],
        "sprung_inertia": {"Ixx": 165, "Iyy": 620, "Izz": 690, "Ixz": -20},
    },
    "corner_bodies_front": {
        "wheel+hub+disc": {"m": 15, "Iyy": 0.6, "Ixx=Izz": 0.34},
        "knuckle": {"m": 5},
        "upper_arm": {"m": 1.6},
        "lower_arm": {"m": 2.4},
    },
    "corner_bodies_rear": {
        "knuckle+strut_tube": {"m": 7},
        "lower_arm": {"m": 2.4},
        "strut_rod": {"m": 1.6},
        "wheel+hub+disc": {"m": 15, "Iyy": 0.6, "Ixx=Izz": 0.34},
    },
    "front_double_wishbone": {
        "WC": [0.0, 0.66, 0.275],
        "UBJ": [-0.012, 0.585, 0.39],
        "LBJ": [0.008, 0.615, 0.175],
        "UAF": [0.12, 0.33, 0.372],
        "UAR": [-0.14, 0.33, 0.362],
        "LAF": [0.15, 0.27, 0.186],
        "LAR": [-0.15, 0.27, 0.178],
        "TRO": [-0.11, 0.6, 0.205],
        "TRI": [-0.115, 0.2777, 0.2066],
        "SPL": [0.0, 0.48, 0.185],
        "SPU": [-0.01, 0.36, 0.52],
    },
    "rear_macpherson": {
        "WC": [-2.25, 0.67, 0.275],
        "LBJ": [-2.245, 0.625, 0.17],
        "LAF": [-2.05, 0.3, 0.18],
        "LAR": [-2.42, 0.3, 0.17],
        "TRO": [-2.385, 0.61, 0.195],
        "TRI": [-2.385, 0.2752, 0.1978],
        "TOP": [-2.262, 0.545, 0.72],
        "CLAMP": [-2.254, 0.585, 0.43],
        "SPL": [-2.2555, 0.5775, 0.48],
        "SPU": [-2.262, 0.545, 0.72],
    },
    "spring_damper": {
        "front": {"k": 40000.0, "c": 2500.0, "free_length": 0.419},
        "rear": {"k": 23000.0, "c": 1350.0, "free_length": 0.3297},
    },
    "steering": {"rack_travel_per_rev": 0.045, "rack_limit": 0.065, "column_inertia": 0.02},
    "brakes": {"front_Nm_per_bar": 11.0, "rear_Nm_per_bar": 6.5, "sensor_range_bar": 40},
    "aero": {"CdA": 0.95, "rho": 1.2},
    "rolling_resistance": 0.013,
}
