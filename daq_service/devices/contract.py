"""What a source is to the acquisition: classes to derive from. Whatever is optional has its default here.

A source delivers whole scans, oldest first, as raw register readings: a row for each scan, a column for each channel of
the configuration, int64. It never splits a scan, never invents one, and reports how many it knows to be lost.

Opening a source reads files and checks the configuration, nothing else: the supervisor does it too. Only the process
that samples looks for the device (`find`), and it alone touches it afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from daq_service.effort_settings import EffortSettings
from sync.config.toml import Section

if TYPE_CHECKING:  # this module is imported before anything is compiled
    from sync.clock import RealClock, VirtualClock
    from sync.ring.ring import RingReader


class DeviceSettings(Section):
    """The table `[source]` of one kind of source; its module has one under the name `Settings`. Properties of the kind
    itself are attributes of the class, known before anything is opened."""

    survives_fork: ClassVar[bool] = True  # of its driver; if not, the DAQ is no fork and imports the driver itself
    moves_hand: ClassVar[bool] = True  # its efforts move a user's hand; False if it is emulated, or has no effort
    takes_any_effort: ClassVar[bool] = False  # for trials: also outputs that the machine does not declare as efforts

    def require(self) -> None:
        """Raises DeviceError if it needs software that is not installed. Quick, and compiles nothing."""


@dataclass(frozen=True)
class Host:
    """What a source has of the process it runs in."""

    # the simulator's output, with the channels the source `wants`; None while there is none
    feedback: "Callable[[], RingReader | None]" = lambda: None
    say: Callable[[str], None] = lambda _: None  # a message for the user; stored in the record's summary
    clock: "RealClock | VirtualClock | None" = None  # by which the source works; None: the host's own


class Actuator:
    """A way back to the device."""

    effort: EffortSettings | None = None  # how an output of the simulator goes back; None: none does

    @property
    def compiled_put(self) -> tuple[object, NDArray[np.float64]] | None:
        """A C callback of type PUT (daq_service/effort.py) and the device's numbers: with these the effort loop itself
        hands efforts over, and `put` is not called."""
        return None

    def put(self, value: float) -> None:
        """Give the device this effort, now. Never raises; while there is no device it does nothing."""


class Device(Actuator):
    unwrapped = False  # whether its counters are running counts already
    seconds: float | None = None  # after which it ends by itself; None: never
    wants: Sequence[str] = ()  # names of simulator outputs that it reads (`Host.feedback`)
    axes: Sequence[Actuator] = ()  # further ones, in the order of their names (`source.axes`), each with its own effort

    @property
    def bound_ns(self) -> int:
        """How far its instants may be wrong, if they come from another clock; the simulator adds it to every age."""
        return 0

    def find(self) -> None:
        """Look for the device and check that it can do what is asked; raises DeviceError. Once, before `start`."""

    def start(self) -> None:
        """Begin sampling. Nothing is sampled before."""

    def read(self, scans: NDArray[np.int64], t_ns: NDArray[np.int64], wait_ns: int) -> tuple[int, int]:
        """Take all whole scans there are, at most `len(scans)`; wait at most `wait_ns` for the first.

        Fills `scans` and the sample instants `t_ns`. Returns (how many, how many were lost just before them). No scan
        at all is a normal answer. Lost scans are a gap: what follows is not the continuation of what came before.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """End sampling and let go of the device. May be called twice."""

    def counts(self) -> dict[str, int]:
        """Counters of its own, for the report."""
        return {}
