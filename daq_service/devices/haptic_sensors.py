"""Analogue sensors of the virtual haptic device: what their converters read, from the place and speed of its port.

    Hall sensor   U = volts / (1 + d / reach)²,   d = gap - side x: its magnet comes nearer on one side of the port's
                  pivot and goes away on the other; a field that falls with the square of the distance
    voice coil    U = kappa dx/dt

Noise is nearly of a normal distribution: the sum of twelve uniform numbers, which depend on channel and scan alone, so
that the same run has the same noise. A converter's reading is within the range of its channel's type.
"""

import math

import numpy as np

from daq_service.devices.haptic_settings import Hall, Settings
from sync.compile.jit import kernel
from sync.config.config import Config

_COLUMN, _KIND, _VOLTS, _REACH, _GAP, _SIDE, _PER_COUNT, _NOISE, _LEAST, _MOST = range(10)
_HALL, _COIL = 0.0, 1.0
_MIX = np.uint64(0x9E3779B97F4A7C15)


def sensor_rows(config: Config, settings: Settings) -> np.ndarray:
    """A row for every channel that a sensor is on."""
    channels = {channel.name: k for k, channel in enumerate(config.daq.channels)}
    rows = []
    for _, name, sensor in settings.sensors():
        limits = np.iinfo(config.daq.channels[channels[name]].type)
        if isinstance(sensor, Hall):
            front = name == sensor.front
            gap, side = (sensor.front_gap, 1.0) if front else (sensor.rear_gap, -1.0)
            own = [_HALL, sensor.volts, sensor.reach, gap, side]
        else:
            own = [_COIL, sensor.kappa, 1.0, 0.0, 0.0]
        rows.append([channels[name], *own, sensor.volts_per_count, sensor.noise, limits.min, limits.max])
    return np.array(rows, np.float64).reshape(-1, _MOST + 1)


@kernel()
def _mixed(z):
    """The mixer of splitmix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel()
def _normal(seed):
    total, s = 0.0, _mixed(seed + _MIX)  # mixed, so that one seed's twelve numbers are not those of a nearby seed
    for _ in range(12):
        s += _MIX
        total += float(_mixed(s) >> np.uint64(11)) / 9007199254740992.0
    return total - 6.0


@kernel()
def fill_sensors(scan, number, place, speed, sensors):
    """Fill the channels of sensors in one scan."""
    for k in range(sensors.shape[0]):
        if sensors[k, _KIND] == _HALL:
            share = 1.0 + max(sensors[k, _GAP] - sensors[k, _SIDE] * place, 0.0) / sensors[k, _REACH]
            volts = sensors[k, _VOLTS] / (share * share)
        else:
            volts = sensors[k, _VOLTS] * speed
        if sensors[k, _NOISE] > 0.0:
            volts += sensors[k, _NOISE] * _normal(np.uint64(number) * np.uint64(64) + np.uint64(k))
        counts = math.floor(volts / sensors[k, _PER_COUNT] + 0.5)
        scan[int(sensors[k, _COLUMN])] = np.int64(min(max(counts, sensors[k, _LEAST]), sensors[k, _MOST]))
