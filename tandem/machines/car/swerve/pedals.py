"""What a foot feels at brake and throttle: the force that holds each pedal where it is.

The brake's is that of the pressure at its master cylinder, through piston and lever (`brake_pedal_rate`); the lag of
the brakes is behind that. While the anti-lock control holds wheels below the pressure in the line, its pump pushes back
by the mean of what is held back (`brake_pedal_kick`): the one part that is not passive, as in a car. The throttle's is
that of a return spring. Both have dry friction, which makes the way back lighter than the way there: an elastic element
that slips (Prandtl), so that it stands at any position, and takes energy only.

`pedal_feel` scales both, as far as what a pedal gains on its way stays below `brake_pedal_limit`,
`throttle_pedal_limit`: what stays passive by tandem/machines/car/doctor/pedals.py.
"""

from sim_service.contract.machine import index
from sync.compile.jit import kernel
from tandem.machines.car.buggy.description import INPUTS
from tandem.machines.car.swerve.description import BRAKE_BAND, THROTTLE_BAND, P, S, W

_THROTTLE, _BRAKE = index(INPUTS, "throttle"), index(INPUTS, "brake_pressure_bar")


@kernel(error_model="numpy")
def rub(friction, moved, most, band):
    """Dry friction after the pedal has moved: it winds up to `most` within `band`, and slips from there on."""
    return min(max(friction + most * (moved / band), -most), most)


@kernel(error_model="numpy")
def held_feel(feel, rate, limit):
    return feel if feel * rate <= limit else limit / rate


@kernel(error_model="numpy")
def feel_pedals(state, held_back, inputs, params, out):
    """`state`, `params` and `out` are those behind the car's; `held_back` is what the anti-lock control does, bar."""
    throttle, brake = inputs[_THROTTLE], max(inputs[_BRAKE], 0.0)
    state[S.throttle_friction] = rub(
        state[S.throttle_friction], throttle - state[S.throttle_before], params[P.throttle_pedal_friction],
        THROTTLE_BAND,
    )  # fmt: skip
    state[S.brake_friction] = rub(
        state[S.brake_friction], brake - state[S.brake_before], params[P.brake_pedal_friction], BRAKE_BAND
    )  # fmt: skip
    state[S.throttle_before], state[S.brake_before] = throttle, brake
    rate, kick, spring = params[P.brake_pedal_rate], params[P.brake_pedal_kick], params[P.throttle_pedal_spring]
    feel = held_feel(
        params[P.pedal_feel], rate + kick + params[P.brake_pedal_friction] / BRAKE_BAND, params[P.brake_pedal_limit]
    )
    out[W.felt_brake] = feel * (rate * brake + kick * held_back + state[S.brake_friction])
    feel = held_feel(
        params[P.pedal_feel], spring + params[P.throttle_pedal_friction] / THROTTLE_BAND,
        params[P.throttle_pedal_limit],
    )  # fmt: skip
    out[W.felt_throttle] = feel * (spring * throttle + state[S.throttle_friction])
