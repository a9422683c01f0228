"""python -m tandem.live.recorder CONFIG"""

import sys

from sync.process.service import main
from tandem.live.recorder.process import prepare

if __name__ == "__main__":
    sys.exit(main("record", prepare, real_time=False, waits=False))
