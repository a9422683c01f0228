"""NI's driver: the way to it, here or over a gRPC device server, what it answers, and what is done about that.

Every answer is looked up in one table, ACTIONS. A call to a server has a deadline, because the client sets none; after
a call without an answer no further one is made (`Link.cut`), and calls that end tasks, which a hanging server has
missed, are sent to it when it answers again.
"""

import ipaddress
import warnings
from enum import Enum
from typing import Any

from sync.config.extras import install_extra
from sync.errors import DeviceError

# ---- what the driver answers, and what is done about it --------------------------------------------------------------


class Action(Enum):
    KEEP = "keep what was read, go on"
    RESTART = "an overrun: all tasks are restarted"
    RATE = "a rate the device cannot do: the configuration is wrong"
    RECONNECT = "the device is gone: try until it is back"
    HELD = "held by another process: refused before the run, tried again within it"
    UNKNOWN = "no such device: refused before the run, tried again within it"
    FAIL = "the run cannot go on"


ACTIONS = {
    -200284: Action.KEEP,  # samples not yet available
    -200279: Action.RESTART,  # samples no longer available
    -200222: Action.RESTART,  # stopped before the buffer was overwritten
    -200613: Action.RESTART,  # the same, on a device without a second way to transfer
    -200361: Action.RESTART,  # the device's own memory overflowed
    -200010: Action.RESTART,
    -209829: Action.RESTART,
    -200141: Action.RESTART,  # a counter was overrun
    -201314: Action.RESTART,
    -200019: Action.RATE,  # the converter was asked for more than it can do
    -201003: Action.RECONNECT,  # cannot be accessed
    -200045: Action.RECONNECT,  # removed
    -200175: Action.RECONNECT,  # not responding
    -200088: Action.RECONNECT,  # a restarted device server has no tasks of ours
    -50103: Action.HELD,
    -200022: Action.HELD,
    -200220: Action.UNKNOWN,
}  # everything else: Action.FAIL
_SERVER_LOST = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")
_DEADLINE_S = 5.0  # of a call to a server
_QUICK_DEADLINE_S = 1.0  # of reads and writes, which are quick, beyond the wait that they ask for
_QUICK_CALLS = ("/GetReadAttributeUInt32", "/StopTask", "/ClearTask")  # they ask for no wait, and are quick too


def action(error: Exception) -> Action:
    code = getattr(error, "error_code", None)
    if code is not None:
        return ACTIONS.get(code, Action.FAIL)
    return Action.RECONNECT if server_lost(error) else Action.FAIL


def server_lost(error: Exception) -> bool:
    return isinstance(error, Cut) or getattr(getattr(error, "rpc_code", None), "name", "") in _SERVER_LOST


class Cut(Exception):
    """A call that was not made, because the one before it had no answer."""


def text(error: Exception) -> str:
    """NI's own words, on one line."""
    return " ".join(str(error).split())


# ---- the package and the driver --------------------------------------------------------------------------------------


def package() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of packages below it
            import nidaqmx
            import nidaqmx.errors
            import nidaqmx.stream_readers
            import nidaqmx.stream_writers
            import nidaqmx.system
    except ImportError as error:
        raise DeviceError(
            f"source.kind = 'nidaqmx' needs the package nidaqmx ({error}); install the extra `ni`:"
            f" {install_extra('ni')}"
        ) from None
    return nidaqmx


def no_driver(error: Exception) -> DeviceError:
    return DeviceError(
        f"source.kind = 'nidaqmx': the NI-DAQmx driver is not on this machine ({type(error).__name__}). Install"
        " NI-DAQmx for Linux or Windows from ni.com/downloads, or set source.server to HOST:PORT of a machine that has"
        " it and runs the NI gRPC device server"
    )


def on_loopback(server: str) -> bool:
    """Whether HOST:PORT is this machine; a name other than localhost may be any machine's."""
    host = server.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Link:
    """The way to the driver: here, or over a server's channel."""

    def __init__(self, server: str, tls: tuple[bytes | None, ...] = ()):
        """`tls`: PEM of the authority to trust, and of our own certificate and key, if any."""
        self.server, self._tls = server, tls
        self.where = f"the NI gRPC device server at {server}" if server else "the NI-DAQmx driver of this machine"
        self._channel: Any = None
        self._options: Any = None
        self.cut = False  # make no call: after one without an answer each of the others would wait as long
        self._hangs = False  # connected, and silent
        self._unheard: list[tuple[str, Any]] = []  # calls that end tasks, missed by a server that hangs

    def options(self) -> Any:
        if self.server and self._options is None:
            try:
                import grpc
                from nidaqmx import GrpcSessionOptions
            except ImportError as error:
                raise DeviceError(
                    f"source.server = {self.server!r} needs the package grpcio ({error}); install the extra `ni`:"
                    f" {install_extra('ni')}"
                ) from None
            # by default a channel waits up to two minutes before it connects again
            quick = [
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.min_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 500),
            ]
            if self._tls:
                ca, certificate, key = self._tls
                self._channel = grpc.secure_channel(
                    self.server, grpc.ssl_channel_credentials(ca, key, certificate), quick
                )
            else:
                self._channel = grpc.insecure_channel(self.server, quick)
            self._options = GrpcSessionOptions(grpc.intercept_channel(self._channel, _deadline(grpc, self)), "")
        return self._options

    def system(self, ni: Any) -> Any:
        return ni.system.System.remote(self.options()) if self.server else ni.system.System.local()

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._options = None
        self._unheard.clear()

    def answered(self, how: str, method: str, request: Any) -> None:
        """`how`: name of gRPC's status, or CUT for a call that was not made."""
        if how != "CUT":
            self._hangs = how == "DEADLINE_EXCEEDED"
        if how == "UNAVAILABLE":  # the server has ended, and its tasks with it
            self._unheard.clear()
        if self._hangs and method.endswith("/ClearTask"):
            self._unheard.append((method, request))

    def clear_unheard(self) -> None:
        """End our tasks on a server that only hung: it would report that its device is in use."""
        self.options()
        while self._unheard:
            method, request = self._unheard[0]
            call = self._channel.unary_unary(method, request_serializer=lambda r: r.SerializeToString())
            answer = call.future(request, timeout=_QUICK_DEADLINE_S)
            if answer.code().name in _SERVER_LOST:
                self._hangs = answer.code().name == "DEADLINE_EXCEEDED"
                if not self._hangs:
                    self._unheard.clear()
                raise Cut(f"{self.where} does not answer")
            self._unheard.pop(0)


def _deadline(grpc: Any, link: Link) -> Any:
    """A deadline for every call: the client sets none, and would wait for a hanging server for ever."""

    class Deadline(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
        def intercept_unary_unary(self, proceed: Any, details: Any, request: Any) -> Any:
            if link.cut:
                link.answered("CUT", details.method, request)
                raise Cut(f"{link.where} does not answer")
            quick = details.method.endswith(_QUICK_CALLS)
            wait = getattr(request, "timeout", 0.0 if quick else None)
            most = _DEADLINE_S if wait is None else _QUICK_DEADLINE_S + wait
            answer = proceed(_Details(details.method, most, details.metadata), request)
            link.answered(answer.code().name, details.method, request)
            return answer

    class _Details(grpc.ClientCallDetails):  # type: ignore[misc]
        credentials = wait_for_ready = compression = None

        def __init__(self, method: str, timeout: float, metadata: Any):
            self.method, self.timeout, self.metadata = method, timeout, metadata

    return Deadline()


def require(server: str) -> None:
    """The package, and, without a server, the driver."""
    ni = package()
    if server:
        Link(server).options()  # the package's own optional part
        return
    try:
        _ = ni.system.System.local().driver_version
    except (ni.errors.DaqNotFoundError, ni.errors.DaqNotSupportedError) as error:
        raise no_driver(error) from None
    except ni.errors.Error as error:
        raise DeviceError(f"source.kind = 'nidaqmx': the NI-DAQmx driver fails: {text(error)}") from None
