"""python -m tandem.view CONFIG"""

import sys

from sync.compile.jit import compiling
from sync.process.service import main

if __name__ == "__main__":
    with compiling("view"):
        from tandem.view.process import prepare
    sys.exit(main("view", prepare, real_time=False))
