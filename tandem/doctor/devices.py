"""Which devices this machine has for the optional sources, a check a kind.

Each source module knows how to look (`devices`), and reports in a sentence what is missing if it cannot. That is worth
knowing and no fault, unless the configuration's own source is of that kind: then a run will not start.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from daq_service.devices import DEVICES, require
from daq_service.devices.nidaqmx_driver import on_loopback
from sync.config.extras import install
from sync.errors import TandemError
from tandem.doctor.findings import Case, Finding, failed, passed, warned


def _server(settings: dict[str, Any], folder: Path) -> tuple[Any, ...]:
    """Where NI's driver is; with TLS, the files for that."""
    server, *pem = (str(settings.get(key, "")) for key in ("server", "server_ca", "server_certificate", "server_key"))
    return (server, tuple(pem), folder) if pem[0] else (server,)


# what `devices` of a source's module is given, of its settings and their folder
KINDS: dict[str, Callable[[dict[str, Any], Path], tuple[Any, ...]]] = {
    "nidaqmx": _server,
    "can": lambda settings, folder: (),
    "gamepad": lambda settings, folder: (),
}


def check(kind: str) -> Callable[[Case], Finding]:
    return lambda case: find_devices(kind, case)


def find_devices(kind: str, case: Case) -> Finding:
    source = case.config.source
    wanted = source.get("kind") == kind
    try:
        module = importlib.import_module(DEVICES[kind])
        if wanted:
            require(case.config, case.file)
        if not hasattr(module, "devices"):
            return passed("this source cannot list its devices")
        found = [str(device) for device in module.devices(*KINDS[kind](source if wanted else {}, case.file.parent))]
    except TandemError as error:
        return _missing(kind, str(error), "install or connect what this message names, then ask again", wanted)
    except ModuleNotFoundError as error:
        if error.name != DEVICES[kind]:
            why, remedy = f"the package {error.name} is not installed", f"`{install(str(error.name))}`"
        else:
            why, remedy = (
                "this tandem has no such source",
                "install a tandem that has it, or choose another source.kind",
            )
        return _missing(kind, why, remedy, wanted)
    except Exception as error:  # of another package; without need for it no reason to stop a run
        why = f"looking for devices failed: {type(error).__name__}: {error}"
        return _missing(kind, why, "try that package and its driver by themselves first", wanted)
    server = str(source.get("server", "")) if wanted and kind == "nidaqmx" else ""
    if server and not source.get("server_ca") and not on_loopback(server):
        return warned(
            f"source.server = {server!r} is reached without TLS (source.server_unencrypted = true): everyone on the way"
            " can read the samples and send others",
            "give source.server_ca, the certificate that the server's own is signed with",
            devices=found,
        )
    if wanted and kind == "can" and _off_the_network(source):
        return warned(
            f"source.interface = {source.get('interface')!r} takes frames off the network, without keys: everyone who"
            " reaches this machine can move the model",
            'use a bus of this machine (source.interface = "socketcan"), or a network of its own',
            devices=found,
        )
    if found:
        return passed(", ".join(found), devices=found)
    if wanted and _would_be_seen(kind, source):
        return warned(
            f"no device is seen, and the configuration's source is {kind}",
            f"connect and switch on the device, and see that {case.file} names it",
            devices=[],
        )
    return passed("ready, but no device is seen", devices=[])


def _off_the_network(settings: dict[str, Any]) -> bool:
    """Whether frames come from other hosts. A hop limit is one of what is sent only; serial ports may be `socket://`."""
    if settings.get("replay") is not None:
        return False
    return settings.get("interface") in ("udp_multicast", "socketcand") or "://" in str(settings.get("channel", ""))


def _would_be_seen(kind: str, settings: dict[str, Any]) -> bool:
    """Of buses only the kernel's are listed; a log needs none."""
    return kind != "can" or (settings.get("interface") == "socketcan" and settings.get("replay") is None)


def _missing(kind: str, why: str, remedy: str, wanted: bool) -> Finding:
    if wanted:
        return failed(why, remedy, missing=why)
    return passed(f"{why} (only needed for source.kind = {kind!r})", missing=why)
