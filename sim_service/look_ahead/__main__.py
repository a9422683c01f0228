"""python -m sim_service.look_ahead CONFIG"""

import sys

from sync.compile.jit import compiling
from sync.process.service import main

if __name__ == "__main__":
    with compiling("look_ahead"):
        from sim_service.look_ahead.service import in_words, prepare
    sys.exit(main("look_ahead", prepare, in_words, real_time=False))
