"""python -m daq_service CONFIG"""

import signal
import sys

from sync.jit import compiling
from sync.service import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while compiling just ends
    with compiling("daq"):
        from daq_service.service import run
        from daq_service.sources import replay, virtual  # noqa: F401  (their kernels too are compiled before the start)
    sys.exit(main("daq", run))
