"""Is the ring's algorithm right on every machine that keeps the C11 memory model? All executions, not some.

What is checked is the source of sync/ring/ring.py itself: its functions are read from the file and every atomic
operation in them is made a `yield`, so that a machine between two threads decides what happens next and what a load
finds. The machine is operational and weaker than any processor we know of. Each word has the history of everything ever
stored into it. A thread has a view: for each word the oldest entry it may still read. A load takes any entry from there
on, so a reader may see words old and new in any mixture that nothing forbids. Views travel with releases and are taken
over by acquires; a release fence dresses the relaxed stores behind it, an acquire fence takes over what relaxed loads
before it have met. All interleavings and all choices of loads are gone through, each state once; a broken promise is
printed as the shortest execution that breaks it.

Then every ordering in the source is taken out, one at a time, and the check must fail: otherwise it
does not check that ordering. docs/verification.md has the promises, the model's limits and what was found.

    python -m verify ring-check            larger bounds, a minute or two
    python -m verify ring-check --small    those of the tests
    python -m verify ring-check --show     with the executions that break the weakened ones

Exits with 1 if a promise is broken, or if a weakening is not what it is declared to be.
"""

import ast
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from sync.ring import ring as ring_module
from verify import ROOT
from verify.measure import Row, figure, holds, note

SOURCE = ROOT / "sync" / "ring" / "ring.py"
ATOMICS = ("load_acquire", "load_relaxed", "store_relaxed", "store_release", "fence_acquire", "fence_release")
FUNCTIONS = ("push", "read_slot", "newest", "since", "peek", "poke")
RETRIES = 2  # of `newest`; a reader that was lapped twice is no different from one lapped a thousand times

HEAD, EPOCH = ring_module.HEAD_WORD, ring_module.EPOCH_WORD
FIRST_SLOT = 32

Place = tuple[str, str, int]  # function, atomic operation, which one of these in it
Mutation = dict[Place, str]  # what stands there instead
Views = tuple[int, ...]


# ---- the source as generators ----------------------------------------------------------------------------------------


class _Yields(ast.NodeTransformer):
    def __init__(self, function: str, mutation: Mutation, found: list[Place]):
        self._function, self._mutation, self._found = function, mutation, found
        self._count: Counter[str] = Counter()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ATOMICS:
            place = (self._function, name, self._count[name])
            self._count[name] += 1
            self._found.append(place)
            arguments = node.args
            if not name.startswith("fence"):
                assert isinstance(node.args[0], ast.Name) and node.args[0].id == "ring", ast.dump(node)
                arguments = node.args[1:]
            what = ast.Constant(self._mutation.get(place, name))
            return ast.Yield(ast.Tuple([what, *arguments], ast.Load()))
        return ast.YieldFrom(node) if name in FUNCTIONS else node


class _Header:
    """The words that never change, which kernels read as they like; every other word needs an atomic operation."""

    def __init__(self, capacity: int, words: int):
        self.capacity, self.words, self.slot_words = capacity, words, 1 + words
        self._values = {
            ring_module._CAPACITY: capacity,
            ring_module._BLOCK_WORDS: words,
            ring_module._SLOT_WORDS: self.slot_words,
            ring_module._FIRST_SLOT: FIRST_SLOT,
        }

    def __getitem__(self, word: int) -> int:
        return self._values[word]


class _Rows(list[Any]):
    @property
    def shape(self) -> tuple[int]:
        return (len(self),)


def functions(mutation: Mutation) -> tuple[dict[str, Any], list[Place]]:
    """The ring's functions as generators of their atomic operations, and where these stand."""
    tree = ast.parse(SOURCE.read_text())
    chosen = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS]
    found: list[Place] = []
    for function in chosen:
        function.decorator_list = []
        _Yields(function.name, mutation, found).visit(function)
    names: dict[str, Any] = {name: value for name, value in vars(ring_module).items() if isinstance(value, int)}
    names["_MOST_RETRIES"] = RETRIES
    module = ast.fix_missing_locations(ast.Module(chosen, []))  # type: ignore[arg-type]
    exec(compile(module, str(SOURCE), "exec"), names)
    names["slot_alone"] = names["read_slot"]

    def read_slot(ring: _Header, n: int, block: list[Any]) -> Any:
        whole = yield from names["slot_alone"](ring, n, block)
        if not whole:
            yield "missed", n
        return whole

    names["read_slot"] = read_slot
    return names, found


# ---- what is tried ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """A writer that pushes so many blocks, in one life or two, and a reader that calls these one after the other."""

    pushes: int
    calls: tuple[tuple[Any, ...], ...]  # ("newest",), ("since", rows), ("epoch",), ("slot", n)
    capacity: int = 2
    words: int = 2
    dies: bool = False  # at any of its operations; another adopts the ring, and pushes as many

    def __str__(self) -> str:
        calls = " ".join(str(c[0]) + (f"({c[1]})" if len(c) > 1 else "") for c in self.calls)
        lives = ", dies anywhere, reborn" if self.dies else ""
        return f"capacity {self.capacity}, {self.pushes} blocks of {self.words}{lives}: {calls}"


NEWEST, EPOCH_READ = ("newest",), ("epoch",)
SMALL = (
    Scenario(4, (NEWEST, NEWEST)),
    Scenario(4, (("since", 2), ("since", 2))),
    Scenario(3, (NEWEST, ("since", 3))),
    Scenario(2, (NEWEST, EPOCH_READ), dies=True),
    Scenario(2, (("since", 3),), dies=True),
    Scenario(3, (("slot", 0), ("slot", 2))),
)
LARGE = (
    *SMALL,
    Scenario(5, (NEWEST, NEWEST, NEWEST)),
    Scenario(5, (("since", 2), ("since", 2), ("since", 3))),
    Scenario(5, (NEWEST, ("since", 3), NEWEST)),
    Scenario(6, (NEWEST, NEWEST), capacity=4),
    Scenario(6, (("since", 4), ("since", 4)), capacity=4),
    Scenario(4, (NEWEST, NEWEST), words=3),
    Scenario(3, (NEWEST, NEWEST, EPOCH_READ), dies=True),
    Scenario(3, (("since", 4), ("since", 4)), dies=True),
    Scenario(4, (("since", 4),), capacity=4, dies=True),
    Scenario(5, (("slot", 0), ("slot", 1), ("slot", 4))),
)
# what the docstring of sync/ring/ring.py warns of: without the head, a slot that two lives have written fools a reader
SLOT_OF_TWO_LIVES = Scenario(1, (("slot", 0),), dies=True)

_STAMP, _HEAD_STORE = ("push", "store_release", 0), ("push", "store_release", 1)
WEAKENED: dict[str, Mutation] = {
    "no fence_release in push": {("push", "fence_release", 0): "nothing"},
    "no fence_acquire in read_slot": {("read_slot", "fence_acquire", 0): "nothing"},
    "no odd stamp in push": {("push", "store_relaxed", 0): "nothing"},
    "even stamp stored relaxed": {_STAMP: "store_relaxed"},
    "head stored relaxed": {_HEAD_STORE: "store_relaxed"},
    "stamp loaded relaxed": {("read_slot", "load_acquire", 0): "load_relaxed"},
    "head loaded relaxed by newest": {("newest", "load_acquire", 0): "load_relaxed"},
    "head loaded relaxed by since": {("since", "load_acquire", 0): "load_relaxed"},
    "even stamp and head stored relaxed": {_STAMP: "store_relaxed", _HEAD_STORE: "store_relaxed"},
}
# a reader that comes by way of the head has acquired the block with it: these two matter to a slot read by itself only
ONLY_FOR_A_SLOT_ALONE = ("even stamp stored relaxed", "stamp loaded relaxed")


def alone(scenario: Scenario) -> bool:
    return any(call[0] == "slot" for call in scenario.calls)


# ---- the machine -----------------------------------------------------------------------------------------------------


class _Memory:
    """All that a writer ever stores, by word and in order. It never looks at a reader, so it is known beforehand."""

    def __init__(self, names: dict[str, Any], scenario: Scenario, death: int | None):
        self.header = header = _Header(scenario.capacity, scenario.words)
        slots = range(FIRST_SLOT, FIRST_SLOT + scenario.capacity * header.slot_words)
        self.places = {word: place for place, word in enumerate((HEAD, EPOCH, *slots))}
        none = (0,) * len(self.places)
        self.entries: list[list[tuple[int, Views]]] = [[(0, none)] for _ in self.places]
        self.there: list[Views] = [tuple(1 for _ in none)]  # after each store, entries of each word
        self.texts: list[str] = []  # of each store
        self.operations = 0
        self.ended = False  # the first life came to its end, the second began
        self.published: dict[int, int] = {}  # position: which push it is
        self._names, self._scenario = names, scenario
        self._serial = 0
        self._view = list(none)
        self._run(self._life(1), death)
        if death is not None:
            self.ended = self.operations < death
            self._run(self._life(2), None)  # the kernel's lock hands over all that the first one did

    def block(self, serial: int) -> list[int]:
        return [serial * 10 + i for i in range(self._scenario.words)]

    def _life(self, life: int) -> Iterator[Any]:
        if life > 1:
            yield from self._names["poke"](self.header, EPOCH, life)
        for _ in range(self._scenario.pushes):
            self._serial += 1
            yield from self._names["push"](self.header, self.block(self._serial))

    def _run(self, life: Any, most: int | None) -> None:
        released = (0,) * len(self.places)
        value = None
        begun = self.operations
        while most is None or self.operations - begun < most:
            try:
                what, *arguments = life.send(value)
            except StopIteration:
                return
            self.operations += 1
            value = None
            if what == "fence_release":
                released = tuple(self._view)
            elif what.startswith("load"):
                value = self.entries[self.places[arguments[0]]][-1][0]  # its own word
            elif what.startswith("store"):
                word, stored = arguments
                place = self.places[word]
                self._view[place] = len(self.entries[place])
                dressed = list(self._view if what == "store_release" else released)
                dressed[place] = self._view[place]
                self.entries[place].append((stored, tuple(dressed)))
                self.there.append(tuple(len(entries) for entries in self.entries))
                self.texts.append(f"{what:13} {self.name(word)} = {stored}")
                if word == HEAD:
                    self.published[stored - 1] = self._serial

    def name(self, word: int) -> str:
        if word in (HEAD, EPOCH):
            return "head" if word == HEAD else "epoch"
        slot, inside = divmod(word - FIRST_SLOT, self.header.slot_words)
        return f"slot {slot} " + ("stamp" if inside == 0 else f"word {inside - 1}")


class Broken(Exception):
    """A promise is broken."""


# A state: how far the writer has come; the reader's call; what this call has been given so far, by which it is known
# where it stands; the reader's view; what relaxed loads have met, which an acquire fence makes the view; the cursor of
# `since`; the newest position returned so far; whether a block of the second life was among them.
_Tuple = tuple[int, int, tuple[Any, ...], Views, Views, int, int, int]


@dataclass
class Verdict:
    states: int = 0
    executions: int = 0  # memories gone through: one, or one for each death
    broken: str = ""
    trace: tuple[str, ...] = ()
    results: frozenset[Any] = frozenset()


class _Search:
    def __init__(self, names: dict[str, Any], scenario: Scenario, memory: _Memory, interleaved: bool):
        self.names, self.scenario, self.memory = names, scenario, memory
        self.interleaved = interleaved
        self.results: set[Any] = set()
        self._steps: dict[Any, Any] = {}

    def run(self) -> Verdict:
        memory = self.memory
        none = (0,) * len(memory.places)
        first: _Tuple = (0 if self.interleaved else len(memory.texts), 0, (), none, none, 0, -1, 0)
        came: dict[_Tuple, tuple[_Tuple, str] | None] = {first: None}
        queue = deque([first])
        calls = len(self.scenario.calls)
        while queue:
            state = queue.popleft()
            try:
                for new, text in self._after(state, calls):
                    if new not in came:
                        came[new] = (state, text)
                        queue.append(new)
            except Broken as broken:
                return Verdict(len(came), 1, str(broken), self._trace(state, came))
        return Verdict(len(came), 1, results=frozenset(self.results))

    def _after(self, state: _Tuple, calls: int) -> Iterator[tuple[_Tuple, str]]:
        stored, call, read, view, met, cursor, last, epoch = state
        memory = self.memory
        if call == calls:
            return  # what the writer does from here on is not read
        if stored < len(memory.texts):
            yield (stored + 1, *state[1:]), f"writer  {stored}"
        what, *arguments = self._step(call, read, cursor)
        if what.startswith("load"):
            place = memory.places[arguments[0]]
            entries = memory.entries[place]
            for at in range(view[place], memory.there[stored][place]):
                value, dressed = entries[at]
                seen = _with(view, place, at)
                all_met = _join(_with(met, place, at), dressed)
                if what == "load_acquire":
                    seen = _join(seen, dressed)
                yield (
                    (stored, call, (*read, value), seen, all_met, cursor, last, epoch),
                    f"reader  {what:13} {memory.name(arguments[0])}: {value}",
                )
        elif what == "fence_acquire":
            yield (stored, call, (*read, None), met, met, cursor, last, epoch), f"reader  {what}"
        elif what == "missed":
            self._missed(arguments[0], met)
            yield (stored, call, (*read, None), view, met, cursor, last, epoch), f"reader  missed {arguments[0]}"
        elif what == "return":
            after = self._check(call, arguments[0], cursor, last, epoch, met)
            self.results.add((call, cursor, last, arguments[0]))
            yield (stored, call + 1, (), view, met, *after), f"reader  returns {arguments[0]}"
        else:
            yield (stored, call, (*read, None), view, met, cursor, last, epoch), f"reader  {what}"

    def _step(self, call: int, read: tuple[Any, ...], cursor: int) -> tuple[Any, ...]:
        """What the reader does next, having been given `read` in this call: by doing it again from its beginning."""
        key = (call, read, cursor)
        if key not in self._steps:
            self._steps[key] = self._replay(*key)
        found: tuple[Any, ...] = self._steps[key]
        return found

    def _replay(self, call: int, read: tuple[Any, ...], cursor: int) -> tuple[Any, ...]:
        header, (kind, *options) = self.memory.header, self.scenario.calls[call]
        block = [None] * header.words
        rows = _Rows([None] * header.words for _ in range(options[0] if kind == "since" else 0))
        running: Any
        if kind == "newest":
            running = self.names["newest"](header, block)
        elif kind == "since":
            running = self.names["since"](header, cursor, rows)
        elif kind == "epoch":
            running = self.names["peek"](header, EPOCH)
        else:
            running = self.names["slot_alone"](header, options[0], block)
        try:
            step = next(running)
            for value in read:
                step = running.send(value)
        except StopIteration as end:
            answer = end.value
            if kind == "newest":
                return "return", (answer, tuple(block))
            if kind == "since":
                return "return", (*answer, tuple(tuple(row) for row in rows[: answer[0]]))
            return "return", ((answer, tuple(block)) if kind == "slot" else (answer,))
        found: tuple[Any, ...] = step
        return found

    # ---- the promises ------------------------------------------------------------------------------------------------

    def _known(self, met: Views) -> int:
        """The furthest position that the reader has seen any sign of."""
        memory, header = self.memory, self.memory.header
        furthest = memory.entries[0][met[0]][0] - 1
        for slot in range(header.capacity):
            place = memory.places[FIRST_SLOT + slot * header.slot_words]
            furthest = max(furthest, (memory.entries[place][met[place]][0] - 1) // 2)
        return furthest

    def _missed(self, n: int, met: Views) -> None:
        if self._known(met) < n + self.memory.header.capacity:
            raise Broken(f"block {n} is taken for overwritten, but nothing has been pushed that far")

    def _whole(self, n: int, words: tuple[Any, ...]) -> None:
        right = self.memory.block(self.memory.published.get(n, -1))
        if list(words) != right:
            raise Broken(f"block {n} is torn or another one: it reads {list(words)}, pushed was {right}")

    def _check(self, call: int, got: Any, cursor: int, last: int, epoch: int, met: Views) -> tuple[int, int, int]:
        """A call has returned; (cursor, newest position, epoch) from now on."""
        memory = self.memory
        kind, *options = self.scenario.calls[call]
        if kind == "newest":
            position, words = got
            if position >= 0:
                self._whole(position, words)
                epoch = max(epoch, memory.published[position] > self.scenario.pushes)
            if (position == ring_module.EMPTY and last >= 0) or 0 <= position < last:
                raise Broken(f"newest went backwards: {position} after {last}")
            if position == ring_module.LAPPED and self._known(met) < memory.header.capacity:
                raise Broken("newest reports that it was lapped, but no writer has gone around")
            return cursor, max(last, position), epoch
        if kind == "since":
            count, after, lost, rows = got
            if after - cursor != count + lost or after < cursor or count > options[0]:
                raise Broken(f"since from {cursor}: {count} blocks and {lost} lost do not lead to {after}")
            found: list[Any] = []
            for words in rows:
                n = next((n for n, s in memory.published.items() if memory.block(s) == list(words)), None)
                if n is None or not max([cursor - 1, *found]) < n < after:
                    raise Broken(
                        f"since from {cursor} to {after}: {list(words)} is torn, out of order or none of these"
                    )
                found.append(n)
            for n in set(range(cursor, after)) - set(found):
                self._missed(n, met)
            return after, max([last, *found]), epoch
        if kind == "epoch":
            if epoch and got[0] < 2:
                raise Broken(f"a block of the second life was there, but its epoch is {got[0]}")
            return cursor, last, epoch
        whole, words = got
        if whole:
            self._whole(options[0], words)
        return cursor, last, epoch

    # ---- the account -------------------------------------------------------------------------------------------------

    def _trace(self, state: _Tuple, came: dict[_Tuple, tuple[_Tuple, str] | None]) -> tuple[str, ...]:
        lines = []
        before = came[state]
        while before is not None:
            state, text = before
            if text.startswith("writer"):
                text = "writer  " + self.memory.texts[int(text.split()[1])]
            lines.append(text)
            before = came[state]
        return tuple(reversed(lines))


def _with(view: Views, place: int, at: int) -> Views:
    return view if view[place] >= at else (*view[:place], at, *view[place + 1 :])


def _join(one: Views, other: Views) -> Views:
    return tuple(map(max, one, other)) if one != other else one


def check(scenario: Scenario, mutation: Mutation | None = None, interleaved: bool = True) -> Verdict:
    """Go through all executions of a scenario.

    Without `interleaved` the writer is done before the reader begins, which loses nothing: an entry, once stored, can
    be read ever after by a reader that has met no newer one, and the writer never looks at the
    reader. Tests compare the two.
    """
    names, found = functions(mutation or {})
    assert set(mutation or {}) <= set(found), f"{SOURCE} has no {set(mutation or {}) - set(found)} any more"
    total = Verdict()
    results: set[Any] = set()
    death = 1 if scenario.dies else None
    while True:
        memory = _Memory(names, scenario, death)
        verdict = _Search(names, scenario, memory, interleaved).run()
        total.states += verdict.states
        total.executions += 1
        results |= verdict.results
        if verdict.broken:
            total.broken, total.trace = verdict.broken, verdict.trace
            return total
        if death is None or memory.ended:
            total.results = frozenset(results)
            return total
        death += 1


def first_broken(scenarios: tuple[Scenario, ...], mutation: Mutation) -> tuple[Scenario, Verdict] | None:
    for scenario in scenarios:
        verdict = check(scenario, mutation)
        if verdict.broken:
            return scenario, verdict
    return None


def ring_check(
    *,
    small: Annotated[bool, "small bounds"] = False,
    show: Annotated[bool, "print the execution that breaks each weakened ring"] = False,
) -> Iterator[Row]:
    scenarios = SMALL if small else LARGE
    total = 0
    for scenario in scenarios:
        verdict = check(scenario)
        total += verdict.states
        trace = "\n".join((verdict.broken, *verdict.trace)) if verdict.broken else f"{verdict.states} states"
        yield holds(f"all executions: {scenario}", not verdict.broken, trace)
    yield figure("states in all", total)
    by_head = tuple(s for s in scenarios if not alone(s))
    for name, mutation in WEAKENED.items():
        fails = {}
        for title, some in (("by the head", by_head), ("a slot alone", tuple(s for s in scenarios if alone(s)))):
            found = first_broken(some, mutation)
            fails[title] = bool(found)
            if found and show:
                note("\n".join((f"{name}: {found[0]}: {found[1].broken}", *("    " + t for t in found[1].trace))))
        right = any(fails.values()) and fails["by the head"] == (name not in ONLY_FOR_A_SLOT_ALONE)
        shown = ", ".join(f"{title}: {'fails' if broken else 'holds'}" for title, broken in fails.items())
        yield holds(f"weakened, {name}: the check finds it", right, shown)
    yield holds("a slot alone, of two lives: the check finds it", check(SLOT_OF_TWO_LIVES).broken)
