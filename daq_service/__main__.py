"""python -m daq_service CONFIG"""

import signal
import sys

from sync.compile.jit import compiling
from sync.process.service import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while compiling just ends
    with compiling("daq"):
        from daq_service.service import in_words, prepare
    sys.exit(main("daq", prepare, in_words))
