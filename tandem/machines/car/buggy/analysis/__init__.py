"""The car as theory knows it: what the multibody buggy is judged by.

Nothing here shares a line with the multibody model: no natural coordinates, no constraints, no compiled code, no tyre
formula. Suspensions are solved link by link in closed form, the car by linear theory from the same hardpoints and
figures.

    geometry    points on circles and spheres
    suspension  double wishbone and MacPherson strut: positions and velocities for given travel and rack
    corner      camber, toe, kingpin, roll centre, motion ratio: what road and spring see
    car         the figures linear theory needs, from hardpoints and parameters; static loads
    steady      load transfer, roll, understeer and its parts, yaw gain
    attitude    the same with exact geometry: leaning, diving, squatting at any acceleration
    handling    the single-track car with and without roll, as linear systems; step steer
    ride        heave, pitch, roll and wheel hop of seven freedoms
    straight    braking, coasting, longitudinal load transfer
    linear      all of it at once: `predict`
    report      tables of all this as plain data
"""
