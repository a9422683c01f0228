"""States and results of a tyre in time (transient.py): what is where. Nothing here is compiled."""

from sim_service.contract.machine import places

# fmt: off
S = places("S", (
    "EX", "EY",  # m; deflection
    "VSX", "VSY",  # m/s; slip velocity
    "RX", "RY",  # 1/s; V m / sigma
    "TWIST", "TURN", "RT",  # rad, rad/s, 1/s; of the patch against the rim; 0 without turn slip
))
OUT = places("OUT", (
    "FX", "FY", "MX", "MY", "MZ",  # N, N m; of the road on the tyre in the contact point
    "CX", "CY",  # N s/m; -dFx/dv_sx, -dFy/dv_sy, of the force at the end of the step by the velocity then; >= 0
    "KAPPA", "ALPHA",  # 1, rad; slips of the patch, that went into the Magic Formula
))
# fmt: on
STATES = len(S)
OUTPUTS = len(OUT)
