"""python -m sim_service.view CONFIG"""

import sys

from sync.jit import compiling
from sync.service import main

if __name__ == "__main__":
    with compiling("view"):
        from sim_service.view.service import prepare
    sys.exit(main("view", prepare, real_time=False))
