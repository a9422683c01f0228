"""The Magic Formula over the rows of a test rig, for fits."""

from numba import boolean, float64, void

from sync.compile.array_types import CONSTANTS
from sync.compile.jit import kernel
from tandem.machines.car.tyres.keys import T
from tandem.machines.car.tyres.magic_formula import OPTIONS, evaluate
from tandem.machines.car.tyres.magic_formula_6 import departure, evaluate_6

COMPILED_ON_REQUEST = True  # see sync/compile/build.py
FX, FY, MX, MZ = range(4)


@kernel(void(CONSTANTS, boolean, *[float64[:]] * 6, float64[:, ::1]), **OPTIONS)
def steady_rows(p, six, load, kappa, ta, gamma, pressure, speed, out):
    """Fx, Fy, Mx, Mz of each row, as columns of `out`."""
    for i in range(len(load)):
        if six:
            dpi = departure(p, pressure[i])
            Fx, Fy, Mx, _, Mz, _, _ = evaluate_6(
                p, load[i], kappa[i], ta[i], gamma[i], 1.0, p[T.MIRROR], speed[i], False, 0.0, dpi
            )
        else:
            Fx, Fy, Mx, _, Mz, _, _ = evaluate(
                p, load[i], kappa[i], ta[i], gamma[i], 1.0, p[T.MIRROR], speed[i], False, 0.0
            )
        out[i, FX], out[i, FY], out[i, MX], out[i, MZ] = Fx, Fy, Mx, Mz
