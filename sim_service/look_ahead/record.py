"""The block of one prediction: its layout, its kinds and its status word. Compiles nothing.

`t_ns` of a block is the instant of the step it begins with. Places are equally far apart in time, the last one at the
horizon; where the copy was stepped no further (control was lost, or it diverged) they stay where it ended.
"""

from sync.ring.block import PAYLOAD, Channel, Layout

HELD, MOVING, PATH = range(3)  # kinds: all inputs as they are; a hand that moves goes on; a path is followed
KINDS = ("held", "moving", "path")
POINTS = 20  # of a path

# the status word: what is predicted, then which of it is a warning
LOST, DIVERGED, WARN_LOSS, WARN_GROWTH, WARN_USE = 1, 2, 4, 8, 16
WARNING = WARN_LOSS | WARN_GROWTH | WARN_USE
STATUS = {
    LOST: "control lost",
    DIVERGED: "diverged",
    WARN_LOSS: "warning of loss",
    WARN_GROWTH: "warning of growth",
    WARN_USE: "warning of use",
}
TEXTS = {
    "step": "number of the step whose state it begins with",
    "step_epoch": "epoch of that step",
    "kind": "what the inputs do, see the constants",
    "status": "bits, see the constants",
    "steps": "that the copy made; fewer where control was lost",
    "begun_ns": "the prediction was begun; it was there at pushed_ns",
    "time_to_loss": "until control is lost; the horizon if it is not lost within",
    "use": "share of the grip that is used now",
    "use_most": "the largest share until the horizon or the loss",
    "margin": "what is left of the grip at the least: 1 - use_most",
    "growth": "largest real part of the linearised lateral modes now; above 0 deviations grow",
    "growth_most": "the largest of these until the horizon or the loss",
    "growing": "time for which growth is beyond look_ahead.warn.growth",
    "saturated": "time for which use is beyond look_ahead.warn.use",
}

(
    AT_STEP, AT_STEP_EPOCH, AT_KIND, AT_STATUS, AT_STEPS, AT_BEGUN,
    AT_TIME_TO_LOSS, AT_USE, AT_USE_MOST, AT_MARGIN, AT_GROWTH, AT_GROWTH_MOST, AT_GROWING, AT_SATURATED, AT_PLACES,
) = range(PAYLOAD, PAYLOAD + 15)  # fmt: skip
COMPUTED = AT_TIME_TO_LOSS  # from this word on a prediction follows from its state; so do AT_STATUS and AT_STEPS

LAYOUT = Layout(
    (
        Channel("step", "i8"),  # that it begins with, and the epoch of that step's block
        Channel("step_epoch", "i8"),
        Channel("kind", "i8"),
        Channel("status", "i8"),
        Channel("steps", "i8"),  # that the copy made
        Channel("begun_ns", "i8", "ns"),  # pushed_ns is when it was there
        Channel("time_to_loss", "f8", "s"),  # the horizon if it is not lost within
        Channel("use", "f8"),  # of the grip, now
        Channel("use_most", "f8"),  # and at most until the horizon or the loss
        Channel("margin", "f8"),  # what is left of it then: 1 - use_most
        Channel("growth", "f8", "1/s"),  # of deviations, now
        Channel("growth_most", "f8", "1/s"),
        Channel("growing", "f8", "s"),  # time for which it is above its threshold
        Channel("saturated", "f8", "s"),  # time for which the use is above its threshold
        *(Channel(f"x_{n + 1}", "f8", "m") for n in range(POINTS)),
        *(Channel(f"y_{n + 1}", "f8", "m") for n in range(POINTS)),
    )
)
