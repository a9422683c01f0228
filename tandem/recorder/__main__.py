"""python -m tandem.recorder CONFIG"""

import sys

from sync.process.service import main
from tandem.recorder.process import prepare

if __name__ == "__main__":
    sys.exit(main("record", prepare, real_time=False, waits=False))
