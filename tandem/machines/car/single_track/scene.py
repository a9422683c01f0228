"""What the single-track car looks like: a box on four wheels of the parameters' size, where its state has it."""

from math import cos, sin

import numpy as np

from sim_service.contract.scene import Arrow, Lever, Point, Scene, Solid, Wheel, skin, usual_cameras
from tandem.machines.car.single_track.description import P, S

_G = 9.81


def frames(state: np.ndarray, params: np.ndarray, out: np.ndarray) -> None:
    """One: of the body, at its centre of gravity."""
    c, s = cos(state[S.yaw]), sin(state[S.yaw])
    out[0] = (state[S.x], state[S.y], params[P.cg_height]), (c, s, 0.0), (-s, c, 0.0), (0.0, 0.0, 1.0)


def scene(params: np.ndarray) -> Scene:
    base, front, radius, height = (float(params[p]) for p in (P.wheelbase, P.cg_to_front, P.wheel_radius, P.cg_height))
    tracks = float(params[P.track_front]), float(params[P.track_rear])
    wheels, arrows = [], []
    for k, name in enumerate(("fl", "fr", "rl", "rr")):
        axle, side = k // 2, 1.0 if k % 2 == 0 else -1.0
        of = ("front", "rear")[axle]
        centre = Point(0, (front - axle * base, 0.5 * side * tracks[axle], radius - height))
        steer = "road_wheel_angle" if axle == 0 else ""
        wheels.append(Wheel(name, centre, radius, 0.55 * radius, steer=steer, rate=f"wheel_speed_{of}"))
        arrows.append(Arrow(k, f"force_x_{of}", f"force_y_{of}", f"load_{of}", 0.5))  # half of its axle's
    nose, tail = front + 1.3 * radius, front - base - 1.2 * radius
    w, floor = 0.5 * min(tracks) - 0.32 * radius, 0.6 * radius - height
    shell, faces = skin(
        [
            (nose, 0.8 * w, floor + 0.1, floor + 0.4),
            (front - 0.2, w, floor, floor + 0.6),
            (tail + 0.5, w, floor, floor + 0.65),
            (tail, 0.85 * w, floor + 0.1, floor + 0.55),
        ]
    )
    hand_wheel = np.array([front - 0.85, 0.2, floor + 0.68])
    column = np.array([-np.cos(0.45), 0.0, np.sin(0.45)])
    return Scene(
        wheels=tuple(wheels),
        solids=(Solid("body", 0, shell.min(axis=0), shell.max(axis=0), shell=shell, faces=faces),),
        levers=(Lever("hand wheel", "wheel", hand_wheel, column, 0.175, "steering_angle", 1.0),),
        arrows=tuple(arrows),
        size=base,
        cameras=usual_cameras(base, np.array([front - 0.55 * base, 0.2, 1.15 - height])),
        load=float(params[P.mass]) * _G / 4.0,
    )
