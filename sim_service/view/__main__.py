"""python -m sim_service.view CONFIG"""

import contextlib
import os
import sys

from sync.jit import compiling
from sync.service import main

_NICE = 10  # what it imports and builds is nothing the loop should wait for

if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with compiling("view"):
        from sim_service.view.service import prepare
    sys.exit(main("view", prepare, real_time=False))
