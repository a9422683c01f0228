"""A virtual clock: time that passes only when code reads it or sleeps, and a scripted world that acts in it.

Reading the clock has a cost: a fixed time, a random part, and now and then a stall, all from a seed. A model's step has
a cost, too, if the model puts one into a word that it shares with the clock: the first of `busy`, or the last. Whatever
the script has for an instant that passes is done before the call returns: blocks are pushed into rings, a writer closes
its ring or begins a new epoch, commands are pushed, words are set. Everything happens in the one thread that reads the
clock, so the same seed and script give the same bits, and a minute of steps takes milliseconds.

If a test wants to decide as it goes, it gives the clock a limit. At the limit time stops, and the code that read the
clock waits there until the test has seen what it wanted and moves the limit on (`let_pass`). There are two threads, but
never both at work, so the results are as deterministic as before.
"""

from collections.abc import Callable

import numpy as np
from numba import cfunc

from sync.clock import ADVANCE, VirtualClock, now_ns, sleep_until
from sync.compile.atomics import load_acquire, store_release
from sync.compile.jit import kernel
from sync.ring.block import EPOCH, PUSHED, SEQ, T
from sync.ring.ring import EPOCH_WORD, HEAD_WORD, STATE_WORD, push

# the clock's words: time; where it stops, and where it has stopped; the next row of the script; the cost of a reading
NOW, LIMIT, PARKED, CURSOR, RANDOM, READ_NS, SPREAD_NS, STALL_PER_MILLION, STALL_NS, READS = range(10)
WORDS_OF_CLOCK = 10
FOREVER = 2**62

# columns of the script: when, what, on which ring (or which word of control); from BLOCK on the words of a block, or
# first of them the value. Rows stand in the order of their instants
AT, KIND, WHERE, BLOCK = range(4)
# kinds: push a block, stamped as it stands; push a command; set the state of a ring; begin a new epoch in it; set a
# word of control
PUSH, COMMAND, STATE, NEW_EPOCH, CONTROL = range(5)

_NAP_NS = 20_000  # of real time, between two checks whether time may go on


@kernel()
def random_below(words, bound):
    """A number from 0 to bound - 1 (xorshift64*)."""
    s = np.uint64(words[RANDOM])
    s ^= s >> np.uint64(12)
    s ^= s << np.uint64(25)
    s ^= s >> np.uint64(27)
    words[RANDOM] = np.int64(s)
    return np.int64((s * np.uint64(2685821657736338717)) >> np.uint64(33)) % bound


@kernel()
def _act(words, row, rings, commands, control):
    """Do what a row of the script says. Pushed blocks are completed in their rows, so that the script records them."""
    kind = row[KIND]
    if kind == PUSH:
        ring = rings[row[WHERE]]
        row[BLOCK + SEQ], row[BLOCK + EPOCH] = ring[HEAD_WORD], ring[EPOCH_WORD]
        push(ring, row[BLOCK:])
    elif kind == COMMAND:
        row[BLOCK + SEQ], row[BLOCK + EPOCH] = commands[HEAD_WORD], commands[EPOCH_WORD]
        row[BLOCK + T] = row[BLOCK + PUSHED] = words[NOW]
        push(commands, row[BLOCK:])
    elif kind == STATE:
        store_release(rings[row[WHERE]], STATE_WORD, row[BLOCK])
    elif kind == NEW_EPOCH:
        ring = rings[row[WHERE]]
        store_release(ring, EPOCH_WORD, (ring[EPOCH_WORD] + 1) & 0xFFFFFFFF)
    elif kind == CONTROL:
        store_release(control, row[WHERE], row[BLOCK])


@kernel()
def _cost(words, busy):
    """The cost of this reading of the clock."""
    words[READS] += 1
    cost = words[READ_NS] + np.int64(busy[0])
    busy[0] = 0.0
    cost += np.int64(busy[-1])  # the same word of the twin, if there is one
    busy[-1] = 0.0
    if words[SPREAD_NS] > 0:
        cost += random_below(words, words[SPREAD_NS])
    if words[STALL_PER_MILLION] > 0 and random_below(words, 1_000_000) < words[STALL_PER_MILLION]:
        cost += random_below(words, words[STALL_NS])
    return cost


@cfunc(ADVANCE, nopython=True, cache=True)
def _advance(words, script, rings, commands, control, busy, instant_ns):
    target = max(instant_ns, words[NOW] + _cost(words, busy))
    while True:
        limit = load_acquire(words, LIMIT)
        at = script[words[CURSOR], AT] if words[CURSOR] < script.shape[0] else FOREVER
        if at <= min(target, limit):
            words[NOW] = max(words[NOW], at)
            _act(words, script[words[CURSOR]], rings, commands, control)
            words[CURSOR] += 1
        elif target <= limit:
            words[NOW] = target
            return target
        else:
            words[NOW] = max(words[NOW], limit)
            store_release(words, PARKED, limit)
            while load_acquire(words, LIMIT) == limit:
                sleep_until(now_ns() + _NAP_NS)


def virtual_clock(
    start_ns: int = 10**12,
    limit_ns: int = FOREVER,
    script: np.ndarray | None = None,
    rings: np.ndarray | None = None,
    commands: np.ndarray | None = None,
    control: np.ndarray | None = None,
    busy: np.ndarray | None = None,
    read_ns: int = 50,
    seed: int = 1,
) -> VirtualClock:
    """A clock that stands at `start_ns`. `rings`: a row for each ring. The script can only act on what is given."""
    words = np.zeros(WORDS_OF_CLOCK, np.int64)
    words[[NOW, LIMIT, RANDOM, READ_NS]] = start_ns, limit_ns, max(seed, 1), read_ns
    words[PARKED] = start_ns
    return VirtualClock(
        _advance,
        words,
        np.zeros((0, BLOCK), np.int64) if script is None else script,
        np.zeros((1, 1), np.int64) if rings is None else rings,
        np.zeros(1, np.int64) if commands is None else commands,
        np.zeros(1, np.int64) if control is None else control,
        np.zeros(1) if busy is None else busy,
    )


def let_pass(clock: VirtualClock, duration_ns: int, going_on: Callable[[], bool] = lambda: True) -> bool:
    """Move the limit on; returns when the code waits there again, or False when it is not `going_on` any more."""
    limit = int(clock.words[LIMIT]) + duration_ns
    store_word(clock.words, LIMIT, limit)
    while load_word(clock.words, PARKED) != limit:
        if not going_on():
            return False
        sleep_until(now_ns() + _NAP_NS)
    return True


@kernel()
def store_word(words, index, value):
    store_release(words, index, value)


@kernel()
def load_word(words, index):
    return load_acquire(words, index)
