"""The road as one vector of doubles: what stands where.

Kernels take a road as a single contiguous `float64` vector, so that a model needs one argument for any of them. It
holds a head, a directory of layers and one of friction patches, then a block of numbers for each. The height of the
road is the sum over its layers; friction is painted by the patches in their order. Positions are kept as doubles,
exact up to 2^53.

    head       VERSION, length of the vector, layers, patches, friction of the ground
    directory  for each layer: kind, where its block begins; for each patch: where its block begins
    blocks     as `tandem.multibody.ground.surface` reads them; the names of their places are below
"""

from enum import IntEnum

import numpy as np

from sync.errors import ConfigError

VERSION = 1.0
HEAD = 8
MOST_NUMBERS = 16_000_000  # of a road, 128 MB
ABSENT = 1e30  # m; a border that is not there


class Kind(IntEnum):
    SLOPE = 1
    GRID = 2
    BUMP = 3
    CURVED = 4


class Head(IntEnum):
    VERSION = 0
    LENGTH = 1
    LAYERS = 2
    PATCHES = 3
    FRICTION = 4
    SHARP = 5  # 1: bends so much within the outline of a wheel that one point of contact is not enough
    STEEPEST = 6  # the greatest slope, along or across


class Slope(IntEnum):
    GRADE = 0
    BANK = 1
    FROM_START = 2  # 1: the slope has no beginning
    BEGIN = 3
    END = 4
    TRANSITION = 5
    SIZE = 6


class Grid(IntEnum):
    """Heights of nodes, row by row along x, with one node more on every side (two beyond the end of a period)."""

    X = 0
    Y = 1
    PER_X = 2  # nodes per metre
    PER_Y = 3
    ROWS = 4  # without the nodes more
    COLUMNS = 5
    PERIODIC = 6  # 1: the rows repeat
    BEGIN = 7  # where the heights fade in; -ABSENT for everywhere
    TRANSITION = 8
    SIZE = 9


class Bump(IntEnum):
    SHAPE = 0
    X = 1  # of its beginning
    LENGTH = 2
    HEIGHT = 3
    RAMP = 4
    BLEND = 5  # part of the ramp that rounds each of its ends
    RIGHT = 6
    LEFT = 7
    SIDE = 8
    SIZE = 9


class Shape(IntEnum):
    COSINE = 0
    HALF_SINE = 1
    TRAPEZOID = 2


class Curved(IntEnum):
    """A grid along a reference line: where the parts of its block stand, counted from the beginning of the block."""

    STRAIGHT = 0  # 1: the line is straight, no search is needed
    ROWS = 1
    INCREMENT = 2  # m between them, along the line
    X = 3  # start of the line and its heading
    Y = 4
    COS = 5
    SIN = 6
    COLUMNS = 7
    RIGHT = 8  # v of the first and of the last column
    LEFT = 9
    STEPS = 10  # entries of the table that finds a column
    PER_STEP = 11  # its entries per metre
    BINS_X = 12  # search for the nearest point of the line: bins that know where to begin
    BINS_Y = 13
    BIN_X = 14
    BIN_Y = 15
    PER_BIN = 16  # bins per metre
    AT_FINDER = 17
    AT_POSITIONS = 18  # v of the columns
    AT_WEIGHTS = 19  # 12 for each gap between columns
    AT_LINE = 20  # pairs of spline coefficients
    AT_BINS = 21
    AT_HEIGHTS = 22
    KNOTS = 23  # of the line's spline
    PER_KNOT = 24  # rows from knot to knot
    SIZE = 25


class Patch(IntEnum):
    FACTOR = 0
    EDGE = 1
    STATIONS = 2
    SIZE = 3  # then x, right, left of each station


def assemble(layers: list[tuple[Kind, np.ndarray]], patches: list[np.ndarray], friction: float) -> np.ndarray:
    """The vector of these blocks."""
    directory = HEAD + 2 * len(layers) + len(patches)
    length = directory + sum(len(block) for _, block in layers) + sum(len(block) for block in patches)
    if length > MOST_NUMBERS:
        raise ConfigError(f"the road takes {length} numbers; at most {MOST_NUMBERS} are allowed, make it smaller")
    road = np.zeros(length)
    road[[Head.VERSION, Head.LENGTH, Head.LAYERS, Head.PATCHES, Head.FRICTION]] = (
        VERSION,
        length,
        len(layers),
        len(patches),
        friction,
    )
    place = directory
    for number, (kind, block) in enumerate(layers):
        road[HEAD + 2 * number : HEAD + 2 * number + 2] = kind, place
        road[place : place + len(block)] = block
        place += len(block)
    for number, block in enumerate(patches):
        road[HEAD + 2 * len(layers) + number] = place
        road[place : place + len(block)] = block
        place += len(block)
    return road
