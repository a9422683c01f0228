"""What the narrow vehicle looks like: its frame, the body that leans on it, suspensions, wheels, forces on them."""

from dataclasses import dataclass

import numpy as np

from sim_service.contract.scene import Arrow, Bar, Camera, Point, Scene, Solid, Wheel, box, skin
from sync.compile.array_types import read_only
from tandem.machines.tilting.vehicle.description import LINK, SPIN, WHEELS, P
from tandem.machines.tilting.vehicle.dynamics import HEAD, N, place
from tandem.multibody.contact.kinds import LINK_REALS, LINK_WORK
from tandem.multibody.contact.kinds import P as PLACE
from tandem.multibody.rotations import about_axis

BASE, BODY, FRONT, LEFT, RIGHT, FRAMES = range(6)


@dataclass
class Frames:
    """Where everything is, as the tree has it; wheels turned by their spin."""

    ints: np.ndarray
    floats: np.ndarray

    def __post_init__(self) -> None:
        self.ints = read_only(np.array(self.ints, np.int32))
        self.reals = read_only(self.floats[HEAD : HEAD + LINK_REALS * N])
        self.links, self.origin = np.zeros(LINK_WORK * N), np.zeros(3)

    def __call__(self, state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
        q = np.ascontiguousarray(state[:N])
        place(self.ints, self.reals, q, np.zeros(N), self.links, self.origin)
        for frame, link in enumerate((LINK.BASE_ROLL, LINK.TILT, *SPIN)):
            own = self.links[LINK_WORK * link : LINK_WORK * (link + 1)]
            R = own[:9].reshape(3, 3)
            if frame >= FRONT:
                R = R @ about_axis(np.array([0.0, 1.0, 0.0]), float(q[link]))
            out[frame, 0], out[frame, 1:] = self.origin + own[PLACE : PLACE + 3], R.T


def scene(p: np.ndarray, heights: tuple[float, ...], standing: tuple[float, float]) -> Scene:
    half, side, joint = 0.5 * float(p[P.wheelbase]), 0.5 * float(p[P.track]), float(p[P.joint_height])
    shell, faces = _SKIN
    arm = 0.6 * heights[1]
    return Scene(
        frames=FRAMES,
        solids=(
            box("frame", BASE, (-half - 0.1, -0.2, joint - 0.12), (half - 0.25, 0.2, joint - 0.04)),
            Solid("body", BODY, np.array([-0.9, -0.3, 0.0]), np.array([0.9, 0.3, 1.2]), shell=shell, faces=faces),
        ),
        bars=(
            Bar("fork", Point(BASE, (half - 0.25, 0.0, joint)), Point(FRONT), "upright", 0.025),
            Bar("rear left arm", Point(BASE, (-half + 0.4, 0.15, arm)), Point(LEFT), "arm", 0.02),
            Bar("rear right arm", Point(BASE, (-half + 0.4, -0.15, arm)), Point(RIGHT), "arm", 0.02),
            Bar("rear left spring", Point(BASE, (-half, side - 0.12, joint + 0.25)), Point(LEFT), "spring", 0.04),
            Bar("rear right spring", Point(BASE, (-half, 0.12 - side, joint + 0.25)), Point(RIGHT), "spring", 0.04),
            Bar("spring mount", Point(BASE, (-half, side - 0.12, joint + 0.25)),
                Point(BASE, (-half, 0.12 - side, joint + 0.25)), "rod", 0.02),
            Bar("tilt axis", Point(BASE, (-half, 0.0, joint)), Point(BASE, (half - 0.3, 0.0, joint)), "rack", 0.02),
            Bar("upright", Point(BODY), Point(BODY, (0.0, 0.0, 0.6)), "strut", 0.02),
        ),
        wheels=tuple(Wheel(name, Point(FRONT + k), heights[min(k, 1)], 0.13) for k, name in enumerate(WHEELS)),
        arrows=tuple(Arrow(k, f"force_x_{w}", f"force_y_{w}", f"load_{w}") for k, w in enumerate(WHEELS)),
        size=1.8,
        load=float(sum(standing) / 2.0),
        cameras=(
            Camera("behind", (-4.6, 0.0, 1.6), (0.4, 0.0, 0.5)),
            Camera("side", (0.2, -4.6, 1.1), (0.2, 0.0, 0.5)),
            Camera("front", (4.6, 0.0, 1.3), (0.0, 0.0, 0.5)),
        ),
        ground="road",
    )  # fmt: skip


_SKIN = skin(
    (
        (-0.9, 0.25, 0.05, 0.7),
        (-0.6, 0.3, 0.02, 1.15),
        (0.0, 0.3, 0.02, 1.2),
        (0.5, 0.28, 0.02, 0.75),
        (0.8, 0.14, 0.05, 0.35),
    )
)
