import sys

NUMPY_FIRST = "numpy" in sys.modules  # imported by pytest or a plugin, before ours set one thread for its BLAS
