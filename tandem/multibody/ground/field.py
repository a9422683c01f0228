"""The surface of a road over many points at once, for drawing; kernels of a step do not need it."""

from sync.compile.jit import kernel
from tandem.multibody.ground.surface import surface


@kernel("void(float64[::1], float64[::1], float64[::1], float64[:, :, ::1])", error_model="numpy")
def surface_over(road, x, y, out):
    """Height, both slopes and friction, into the last axis of `out`, at every pair of these x and y."""
    for i in range(len(x)):
        for j in range(len(y)):
            out[i, j, 0], out[i, j, 1], out[i, j, 2], out[i, j, 3] = surface(road, x[i], y[j])
