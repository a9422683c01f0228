"""What a flood does to a drive: every door of it flooded in turn, and the same drive left alone in between, in one run.

DAQ and simulator talk over TCP on the loopback, without keys, so that everyone gets as far as their peers do; the
blocks pass through a relay that can add malformed messages to them. Before each there is a while without a flood:

    publisher    a process in the DAQ's place sends malformed messages between its blocks
    clock        malformed questions at the DAQ's clock: each is answered, and counted
    commands     malformed requests at the simulator's local socket (a tenth)
    blocks …     topics without end, asked of the sockets that publish: newest blocks, every block, steps
    oversized    messages longer than any of ours, at all doors that others can connect to
    strangers    connections that send nothing of the protocol

For each: what was sent, what was counted for it, by how much the processes grew at their largest, and how late the
steps began (quantiles of every step in the simulator's ring meanwhile, of the quiet time before it and of the flood).

Judged:
- lateness: the 99.9th percentile of all floods together is at most 1.5 times that of all quiet times together. Both
  need 4000 steps, otherwise the ratio is printed and not judged. A door that has 4000 steps under its flood is also
  judged alone, against all quiet times: at most 2.5 times, for it is the fourth largest of 4000 that is compared;
- deadlines: steps that say the one before them ended too late. Under floods, and at each door alone, at most the rate
  of the quiet times and 1 in 10 000 more;
- every step was seen: one that was overwritten before it was read was not judged;
- memory: no process is ever, during a flood, more than 64 MB larger than before it;
- numbers: whatever malformed was read was counted (at doors where each can be: each), and no block was lost.
"""

import contextlib
import json
import math
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import zmq

from sim_service.step_record import MISSED
from sync.config.config import Config, load
from sync.errors import RingError
from sync.ring.ring import RingReader
from tests.sync.zmtp import RUBBISH, Where, ask, dial, frame, greeting
from verify import ROOT
from verify.measure import Row, at_least, at_most, equal, figure, note

CONFIG = ROOT / "configs" / "drive.toml"
LIMIT, LIMIT_OF_ONE, MOST_GROWTH_MB = 1.5, 2.5, 64.0
ENOUGH = 4000  # steps that a 99.9th percentile needs
MORE_MISSES = 1e-4  # of the steps
_AT_ONCE = 100
_PATIENCE_S = 300.0
_SETTLE_S = 2.0


# ---- the floods -- ---------------------------------------------------------------------------------------------------


def _drain(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while peer.recv(1 << 16):
            pass


def subscribe(where: Where, count: int) -> int:
    """Topics without end; how many could be sent."""
    sent = 0
    while sent < count:
        try:
            peer = dial(where, b"SUB")
            threading.Thread(target=_drain, args=(peer,), daemon=True).start()
            while sent < count:
                topics = (b"\1%0200d" % (sent + k) for k in range(_AT_ONCE))
                peer.sendall(b"".join(map(frame, topics)))
                sent += _AT_ONCE
        except OSError:
            time.sleep(0.001)  # cut off: once more
    return sent


def oversize(where: Where, kind: bytes, count: int) -> int:
    """Messages that are too long, a connection each; how many were sent."""
    cut = 0
    for _ in range(count):
        with contextlib.suppress(OSError), dial(where, kind) as peer:
            peer.sendall(bytes([2]) + struct.pack(">Q", 1 << 20) + bytes(1024))
            cut += 1
            _drain(peer)
    return cut


def knock(where: Where, count: int) -> int:
    for _ in range(count):
        with contextlib.suppress(OSError), socket.create_connection(where) as peer:
            peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
    return count


class Middle:
    """Passes the DAQ's messages on to the simulator, with malformed ones between them when asked to."""

    def __init__(self, source: int, to: int):
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._in = self._context.socket(zmq.SUB)
        self._in.set(zmq.SUBSCRIBE, b"")
        self._in.set(zmq.RCVTIMEO, 100)
        self._in.connect(f"tcp://127.0.0.1:{source}")
        self._listener = socket.create_server(("127.0.0.1", to))
        self._peer: socket.socket | None = None
        self.left = self.sent = 0
        self._end = False
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._accept, self._pass_on)]
        for thread in self._threads:
            thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.sendall(greeting(b"PUB"))
                threading.Thread(target=_drain, args=(peer,), daemon=True).start()
                time.sleep(0.1)  # it has greeted and subscribed by then
                self._peer = peer

    def _pass_on(self) -> None:
        while not self._end:
            try:
                message = frame(self._in.recv())
            except zmq.Again:
                continue
            if self._peer is None:
                continue
            rubbish = min(self.left, 200)
            self.left -= rubbish
            try:
                self._peer.sendall(message)
                if rubbish:  # between two blocks: what comes at once with one replaces it
                    time.sleep(0.0003)
                    self._peer.sendall(frame(RUBBISH) * rubbish)
                self.sent += rubbish
            except OSError:
                self._peer = None

    def flood(self, count: int) -> int:
        self.sent, self.left = 0, count
        while self.left and not self._end:
            time.sleep(0.05)
        return self.sent

    def close(self) -> None:
        self._end = True
        self._listener.close()
        self._threads[1].join()
        self._context.destroy(0)


# ---- the drive -------------------------------------------------------------------------------------------------------


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in probes]


class Service:
    """One service as its supervisor would start it; its last status and its report."""

    def __init__(self, role: str, settings: list[str]):
        words = [word for setting in settings for word in ("--set", setting)]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", f"{role}_service", str(CONFIG), "--supervised", *words],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.last: dict[str, Any] = {}
        self.notices: list[str] = []
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            message = json.loads(line)
            kind = message.pop("kind")
            if kind == "ready":
                self.ready.set()
            elif kind == "say":
                self.notices.append(message["text"])
            else:
                self.last = message

    def begin(self) -> None:
        if not self.ready.wait(_PATIENCE_S):
            raise SystemExit(f"a service does not get ready; its notices: {self.notices}")
        assert self._popen.stdin is not None
        self._popen.stdin.write("go\n")
        self._popen.stdin.flush()

    def memory_mb(self, what: str) -> float:
        text = Path(f"/proc/{self._popen.pid}/status").read_text()
        return int(text.partition(f"{what}:")[2].split()[0]) / 1024

    def forget_largest(self) -> None:
        Path(f"/proc/{self._popen.pid}/clear_refs").write_text("5")

    def end(self) -> None:
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGINT)
        try:
            self._popen.wait(20)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._thread.join(5)


Seen = tuple[np.ndarray, np.ndarray]  # of each step: how late it began (us), and whether the one before was too late


def figures(seen: list[Seen]) -> dict[str, Any]:
    late, missed = (np.concatenate(column) for column in zip(*seen, strict=True))
    p50, p99, p999 = np.percentile(late, [50, 99, 99.9])
    return {
        "steps": len(late), "p50_us": round(float(p50), 1), "p99_us": round(float(p99), 1),
        "p999_us": round(float(p999), 1), "max_us": round(float(late.max()), 1), "misses": int(missed.sum()),
    }  # fmt: skip


class Steps:
    """Every step of the simulator, taken out of its ring while it runs."""

    def __init__(self, config: Config):
        end = time.monotonic() + _PATIENCE_S
        while True:
            with contextlib.suppress(RingError):
                self._ring = RingReader(config.ring("sim"))
                if self._ring.head > 0:
                    break
                self._ring.close()
            if time.monotonic() > end:
                raise SystemExit("no step was made")
            time.sleep(0.1)
        self._position = self._ring.head
        self.lost = 0
        self._taken: list[Seen] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while not self._end.wait(0.2):
            steps, self._position, lost = self._ring.since(self._position)
            self.lost += lost
            self._taken.append(((steps["started_ns"] - steps["t_ns"]) * 1e-3, (steps["status"] & MISSED) != 0))

    @contextlib.contextmanager
    def during(self, found: list[Seen]) -> Iterator[None]:
        time.sleep(0.4)
        first = len(self._taken)
        yield
        time.sleep(0.4)
        found += self._taken[first:]

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self._ring.close()


def _number(status: dict[str, Any], key: str) -> int:
    *groups, name = key.split(".")
    for group in groups:
        status = status.get(group) or {}
    return int(status.get(name) or 0)


def flood(
    *,
    malformed: Annotated[int, "messages at each door (commands: a tenth)"] = 1_000_000,
    oversized: Annotated[int, "messages, at all doors together"] = 100_000,
    seconds: Annotated[float, "left alone, before each door"] = 6.0,
    vehicle: str = "vehicles/buggy.toml",
) -> Iterator[Row]:
    name = f"flood_{os.getpid()}"
    daq_port, relayed, sim_port, clock_port, every_port = _free_ports(5)
    common = [
        f"name={name}", "transport.kind=tcp", f"transport.sim_port={sim_port}", f"transport.clock_port={clock_port}",
        f"transport.every_port={every_port}", "transport.clock=estimate", "seconds=0", f"sim.machine={vehicle}",
    ]  # fmt: skip
    settings = {"daq": [*common, f"transport.daq_port={daq_port}"], "sim": [*common, f"transport.daq_port={relayed}"]}
    config = load(CONFIG, settings["sim"])
    crew = {role: Service(role, settings[role]) for role in settings}
    middle = steps = None
    found: dict[str, Any] = {"doors": {}}
    try:
        middle = Middle(daq_port, relayed)
        for service in crew.values():
            service.begin()
        steps = Steps(config)
        time.sleep(_SETTLE_S)
        here = "127.0.0.1"
        few = max(malformed // 10, 1)
        part = max(oversized // 4, 1)
        relay: Middle = middle
        # by socket: what floods it, which counter of which process must count that, and how much of it
        floods: dict[str, tuple[Callable[[], int], tuple[str, str], str]] = {
            "publisher": (lambda: relay.flood(malformed), ("sim", "received.malformed"), "looked at"),
            "clock": (lambda: ask((here, clock_port), malformed), ("daq", "clock.malformed"), "each"),
            "commands": (lambda: ask(str(config.socket("command")), few), ("sim", "commands.refused"), "each"),
            "blocks, topics": (lambda: subscribe((here, daq_port), malformed), ("daq", "cut"), "some"),
            "every, topics": (lambda: subscribe((here, every_port), malformed), ("daq", "cut"), "some"),
            "steps, topics": (lambda: subscribe((here, sim_port), malformed), ("sim", "cut"), "some"),
            "blocks, oversized": (lambda: oversize((here, daq_port), b"SUB", part), ("daq", "cut"), "each"),
            "every, oversized": (lambda: oversize((here, every_port), b"SUB", part), ("daq", "cut"), "each"),
            "clock, oversized": (lambda: oversize((here, clock_port), b"REQ", part), ("daq", "cut"), "each"),
            "steps, oversized": (lambda: oversize((here, sim_port), b"SUB", part), ("sim", "cut"), "each"),
            "strangers": (lambda: knock((here, daq_port), part), ("daq", "refused"), "each"),
        }
        quiet: list[Seen] = []
        under: list[Seen] = []
        for door, (flood, (role, key), how) in floods.items():
            before: list[Seen] = []
            meanwhile: list[Seen] = []
            with steps.during(before):
                time.sleep(seconds)
            resident = {r: s.memory_mb("VmRSS") for r, s in crew.items()}
            for service in crew.values():
                service.forget_largest()
            counted = _number(crew[role].last, key)
            with steps.during(meanwhile):
                begun = time.monotonic()
                sent = flood()
                took = round(time.monotonic() - begun, 1)
            time.sleep(1.0)  # what is on its way is still to be counted, and a status comes three times a second
            one = {"sent": sent, "seconds": took, "counted": _number(crew[role].last, key) - counted, "how": how}
            one["grown_mb"] = {r: round(s.memory_mb("VmHWM") - resident[r], 1) for r, s in crew.items()}
            one["quiet"], one["flooded"] = figures(before), figures(meanwhile)
            found["doors"][door] = one
            quiet += before
            under += meanwhile
            note(_line(door, one))
        found["quiet"], found["flooded"] = figures(quiet), figures(under)
        found["steps_unseen"] = steps.lost
    finally:
        if steps is not None:
            steps.close()
        for role in ("sim", "daq"):
            crew[role].end()
        if middle is not None:
            middle.close()
    daq, sim = crew["daq"].last, crew["sim"].last
    found["blocks_lost"], found["deadline_misses"] = daq.get("lost", -1), sim.get("deadline_misses", -1)
    found["lost_priority"] = {"daq": daq.get("flooded"), "sim": sim.get("flooded")}
    yield from _judged(found)


def _judged(found: dict[str, Any]) -> Iterator[Row]:
    quiet, flooded = found["quiet"], found["flooded"]
    for what, each in (("quiet", quiet), ("flooded", flooded)):
        yield figure(what, _late(what, each).strip())
    judged = min(quiet["steps"], flooded["steps"]) >= ENOUGH
    ratio = "lateness p99.9 of all floods, to the quiet times'", flooded["p999_us"] / quiet["p999_us"]
    yield at_most(*ratio, LIMIT) if judged else figure(f"{ratio[0]}; too few steps to judge", ratio[1])
    for door, one in (("all", {"flooded": flooded}), *found["doors"].items()):
        f = one["flooded"]
        if judged and door != "all" and f["steps"] >= ENOUGH:
            yield at_most(f"{door}: lateness p99.9, to the quiet times'", f["p999_us"] / quiet["p999_us"], LIMIT_OF_ONE)
        allowed = math.ceil(f["steps"] * (quiet["misses"] / quiet["steps"] + MORE_MISSES))
        yield at_most(f"{door}: deadline misses of {f['steps']} steps", f["misses"], allowed)
    yield equal("steps not seen", found["steps_unseen"], 0)
    yield equal("blocks lost", found["blocks_lost"], 0)
    yield figure("threads that lost their priority", json.dumps(found["lost_priority"]))
    for door, one in found["doors"].items():
        least = one["sent"] if one["how"] == "each" else min(one["sent"], 1)
        yield at_least(f"{door}: counted, of {one['sent']} sent", one["counted"], least)
        for role, grown in one["grown_mb"].items():
            yield at_most(f"{door}: the {role} service grew by", grown, MOST_GROWTH_MB, "MB")


def _line(door: str, one: dict[str, Any]) -> str:
    grown = ", ".join(f"{role} {mb:+.1f} MB" for role, mb in one["grown_mb"].items())
    return (
        f"{door:>18}: {one['sent']:>8} sent in {one['seconds']:6.1f} s, {one['counted']:>8} counted ({one['how']});"
        f" {grown}\n{_late('quiet', one['quiet'])}\n{_late('flooded', one['flooded'])}"
    )


def _late(what: str, f: dict[str, Any]) -> str:
    return (
        f"{what:>18}: {f['steps']:>6} steps, {f['misses']} misses; late p50 {f['p50_us']:.1f}, p99 {f['p99_us']:.1f},"
        f" p99.9 {f['p999_us']:.1f}, max {f['max_us']:.1f} us"
    )
