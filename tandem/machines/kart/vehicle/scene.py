"""What the kart looks like: the two halves of its frame, seat, kingpins, axle, wheels, and the forces on them."""

from dataclasses import dataclass

import numpy as np

from sim_service.contract.scene import Arrow, Bar, Camera, Lever, Point, Scene, Wheel, box
from sync.compile.array_types import read_only
from tandem.machines.kart.vehicle.description import CARRIER, LINK, SPIN, WHEELS, P
from tandem.machines.kart.vehicle.dynamics import HALF_TRACK, HEAD, N, place
from tandem.multibody.contact.kinds import LINK_REALS, LINK_WORK, A
from tandem.multibody.contact.kinds import P as PLACE
from tandem.multibody.rotations import about_axis

REAR, FRONT, FIRST = range(3)
FRAMES = FIRST + len(WHEELS)


@dataclass
class Frames:
    """Where everything is, as the tree has it; wheels turned by their spin."""

    ints: np.ndarray
    floats: np.ndarray

    def __post_init__(self) -> None:
        self.ints = read_only(np.array(self.ints, np.int32))
        self.reals = read_only(self.floats[HEAD : HEAD + LINK_REALS * N])
        self.half_track = float(self.floats[HALF_TRACK])
        self.links, self.origin = np.zeros(LINK_WORK * N), np.zeros(3)

    def __call__(self, state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        q = np.ascontiguousarray(state[:N])
        place(self.ints, self.reals, q, np.zeros(N), self.links, self.origin)
        links = self.links.reshape(N, LINK_WORK)
        for frame, link in ((REAR, LINK.ROLL), (FRONT, LINK.TWIST)):
            out[frame, 0], out[frame, 1:] = (
                self.origin + links[link, PLACE : PLACE + 3],
                links[link, :9].reshape(3, 3).T,
            )
        for w, (carrier, spin) in enumerate(zip(CARRIER, SPIN, strict=True)):
            aside = 0.0 if w < 2 else self.half_track if w == 2 else -self.half_track
            spun = links[carrier, :9].reshape(3, 3) @ about_axis(np.array([0.0, 1.0, 0.0]), float(q[spin]))
            out[FIRST + w, 0] = self.origin + links[spin, PLACE : PLACE + 3] + aside * links[spin, A : A + 3]
            out[FIRST + w, 1:] = spun.T


def scene(p: np.ndarray, heights: tuple[float, ...], standing: tuple[float, float]) -> Scene:
    half, up = 0.5 * float(p[P.wheelbase]), float(p[P.frame_height])
    track, rear = 0.5 * float(p[P.track_front]), 0.5 * float(p[P.track_rear])
    pin = track - float(p[P.spindle_length])
    return Scene(
        frames=FRAMES,
        solids=(
            box("rear frame", REAR, (-half - 0.12, -0.33, up - 0.03), (0.0, 0.33, up + 0.03)),
            box("front frame", FRONT, (0.0, -0.3, -0.03), (half + 0.05, 0.3, 0.03)),
            box("nose", FRONT, (half + 0.08, -0.4, -0.02), (half + 0.3, 0.4, 0.12)),
            box("seat", REAR, (-0.42, -0.18, up), (-0.32, 0.18, up + 0.5)),
            box("engine", REAR, (-0.45, -0.5, up), (-0.2, -0.24, up + 0.22)),
        ),
        bars=(
            Bar("front axle", Point(FRONT, (half, -pin, heights[0] - up)), Point(FRONT, (half, pin, heights[0] - up)),
                "rod", 0.02),
            Bar("left spindle", Point(FRONT, (half, pin, heights[0] - up)), Point(FIRST), "upright", 0.02),
            Bar("right spindle", Point(FRONT, (half, -pin, heights[0] - up)), Point(FIRST + 1), "upright", 0.02),
            Bar("rear axle", Point(REAR, (-half, -rear, heights[1])), Point(REAR, (-half, rear, heights[1])),
                "rod", 0.02),
        ),
        wheels=tuple(Wheel(name, Point(FIRST + k), heights[k // 2], 0.13 if k < 2 else 0.2)
                     for k, name in enumerate(WHEELS)),
        levers=(Lever("hand wheel", "wheel", np.array([0.12, 0.0, 0.55]), np.array([-0.8, 0.0, 0.6]), 0.16,
                      "steering_angle", 1.0),),
        arrows=tuple(Arrow(k, f"force_x_{w}", f"force_y_{w}", f"load_{w}") for k, w in enumerate(WHEELS)),
        size=2.0 * half,
        load=float(sum(standing) / 2.0),
        cameras=(
            Camera("behind", (-3.2, 0.0, 1.3), (0.4, 0.0, 0.3)),
            Camera("side", (0.0, -3.2, 0.8), (0.0, 0.0, 0.2)),
            Camera("front", (3.0, 0.0, 0.9), (0.0, 0.0, 0.2)),
        ),
        ground="road",
    )  # fmt: skip
