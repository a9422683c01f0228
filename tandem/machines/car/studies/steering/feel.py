"""What `tandem study steering` shows: torque over frequency two ways, gain that stays passive, the wheel let go."""

from math import isfinite, tau

import numpy as np

from sync.config.input_rows import Encoder
from tandem.console.terminal import Update
from tandem.machines.car.studies.iso.result import Panel, Result, Row
from tandem.machines.car.studies.iso.vehicle import Vehicle
from tandem.machines.car.studies.steering import hands_off
from tandem.machines.car.studies.steering.hands_off import Device
from tandem.machines.car.studies.steering.sweep import FREQUENCIES, RENDER_HZ, sweep
from tandem.reports.html.chart import Series

SPEEDS = (1.0, 20.0, 50.0, 75.0, 100.0, 150.0)  # km/h
DRIVEN = (20.0, 75.0, 150.0)  # km/h; there the onset is driven, too
CLOSE = 0.2  # how far a driven onset may be from its prediction
ENCODER = Encoder(kind="encoder", channel="wheel", per_count=tau / 40000.0, motion=0.05)  # as haptic_wheel.toml
_REST = 4.0  # s, in which a wheel that was let go must swing less


def steering(
    vehicle: Vehicle, speed: float, device: Device, delay: float, update: Update
) -> tuple[list[Result], list[str]]:
    """Results, and what they did not show."""
    swept, first = two_ways(vehicle, speed, lambda what, share: update(what, 0.4 * share))
    let, second = hands_free(vehicle, device, delay, lambda what, share: update(what, 0.4 + 0.6 * share))
    return [swept, let], [*first, *second]


def two_ways(
    vehicle: Vehicle, speed: float, update: Update, frequencies: tuple[float, ...] = FREQUENCIES
) -> tuple[Result, list[str]]:
    points, tally = sweep(vehicle, speed, frequencies, update)
    rows = [Row(f"{p.frequency:g} Hz", "N m/rad", abs(p.fast), abs(p.rendered), "the car at 1 ms") for p in points]
    f = np.array([p.frequency for p in points])
    worst = max(points, key=lambda p: p.difference)
    result = Result(
        "sweep",
        "Torque per angle of the hand wheel: the car at 5 ms with its port model beside the car at 1 ms",
        f"{speed:.0f} km/h, rendered at {1e-3 * RENDER_HZ:g} kHz; complex amplitudes differ by"
        f" {100 * worst.difference:.2g} % at most ({worst.frequency:g} Hz)",
        rows,
        [
            Panel(
                "difference of the complex amplitudes, %",
                [
                    Series("with its port model", f, np.array([100 * p.difference for p in points])),
                    Series("torque of 5 ms steps held", f, np.array([100 * p.difference_held for p in points])),
                ],
                x_label="Hz",
            )
        ],
        [f"not judged: torque of 5 ms steps held differs by {100 * max(p.difference_held for p in points):.2g} %"],
        tally[0],
        int(tally[1]),
    )
    beyond = [f"{p.frequency:g} Hz: the two ways differ by {100 * p.difference:.2g} %" for p in points if not p.agrees]
    return result, beyond


def hands_free(
    vehicle: Vehicle, device: Device, delay: float, update: Update, speeds: tuple[float, ...] = SPEEDS
) -> tuple[Result, list[str]]:
    rows, found = [], []
    least, seconds, capped = float("inf"), 0.0, 0.0
    late: np.ndarray | None = None
    for k, speed in enumerate(speeds):
        update(f"{speed:g} km/h", k / len(speeds))
        car = hands_off.at_speed(vehicle, speed)
        response = hands_off.response(car)
        late = hands_off.shares(ENCODER, device.sample, device.sample, response.w) if late is None else late
        gain = hands_off.passive_gain(response.estimated(late), device, delay)
        least = min(least, gain)
        begins, frequency = hands_off.predicted_onset(response, device)
        rows.append(Row(f"{speed:g} km/h: largest gain that is passive", "1", None, gain, "leak of sampling and delay"))
        rest_gain = hands_off.resting_gain(response, device, delay)
        rows.append(Row(f"{speed:g} km/h: largest gain that comes to rest", "1", None, rest_gain, "Nyquist"))
        least = min(least, rest_gain)
        for low, high in hands_off.restless_gains(response, device, delay):
            if isfinite(high):
                rows.append(Row(f"{speed:g} km/h: weaves from a gain of {low:.2g} to", "1", None, high, "Nyquist"))
            if low < device.gain < high:
                found.append(
                    f"{speed:g} km/h: linear analysis: with a gain of {device.gain:g} the wheel weaves or swings"
                )
        if speed in DRIVEN and isfinite(begins) and 0.0 < begins < hands_off.MOST_DELAY:
            driven = hands_off.onset(car, device, begins)
            rows.append(
                Row(f"{speed:g} km/h: onset at {frequency:.1f} Hz", "ms", 1e3 * begins, 1e3 * driven, "Nyquist")
            )
            if abs(driven / begins - 1.0) > CLOSE:
                found.append(
                    f"{speed:g} km/h: oscillation begins at {1e3 * driven:.3g} ms, predicted {1e3 * begins:.3g}"
                )
        else:
            rows.append(Row(f"{speed:g} km/h: onset at {frequency:.1f} Hz", "ms", None, 1e3 * begins, "Nyquist"))
        if hands_off.grows(hands_off.let_go(car, device, delay, _REST), device, _REST):
            found.append(f"{speed:g} km/h: the wheel does not come to rest with a delay of {1e3 * delay:g} ms")
        seconds, capped = seconds + car.tally[0], capped + car.tally[1]
    rest = "not at rest" if found else "at rest at every speed"
    return Result(
        "hands-off",
        "The wheel let go, from standing to 150 km/h",
        f"wheel of {device.inertia:g} kg m2 and {device.damping:g} N m s/rad, gain {device.gain:g}, delay"
        f" {1e3 * delay:g} ms; gain up to {least:.3g} at this delay; {rest}",
        rows,
        seconds=seconds,
        capped=int(capped),
    ), found
