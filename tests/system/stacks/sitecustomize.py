"""On the path of every program that a test starts: SIGUSR2 makes it say where each of its threads is."""

import faulthandler
import signal

faulthandler.register(signal.SIGUSR2, all_threads=True, chain=False)
