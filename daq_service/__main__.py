"""python -m daq_service CONFIG"""

import signal
import sys

from sync.jit import compiling
from sync.service import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while compiling just ends
    with compiling("daq"):
        from daq_service.service import in_words, prepare
        from daq_service.sources import virtual  # noqa: F401  (its kernels too are compiled before anything starts)
    sys.exit(main("daq", prepare, in_words))
