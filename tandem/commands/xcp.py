"""`tandem xcp`: a running simulation as an XCP slave, until Ctrl-C; or its description for a tool."""

import ipaddress
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tandem.console.config_argument import DEFAULT, ConfigFile
from tandem.console.terminal import AsJson, Overrides, errors, output


def xcp(
    config: ConfigFile = DEFAULT,
    overrides: Overrides = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of TCP and UDP; 0: any that is free.")] = 5555,
    host: Annotated[
        str, typer.Option(help="The address it listens at. One beyond this machine needs --key.")
    ] = "127.0.0.1",
    transport: Annotated[Literal["both", "tcp", "udp"], typer.Option(help="What it listens on.")] = "both",
    key: Annotated[
        Path | None,
        typer.Option(help="File with the secret of seed & key, readable by you alone. Default: nothing is locked."),
    ] = None,
    a2l: Annotated[
        Path | None, typer.Option(help="Write the description there and end. Default: serve, and write none.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let tools measure and calibrate a running simulation over XCP, until Ctrl-C.

    Parameters are characteristics, channels are measurements of every step and every scan; a written parameter is
    checked, obeyed between two steps and recorded like any other command.
    """
    from sync.compile.jit import compiling
    from sync.process.threads import set_by_signals

    with errors():
        from sync.config.config import load

        read = load(config, overrides or [])
        secret = _secret(host, key)
        with compiling("view"):
            from sim_service.registry import configured_machine
            from tandem.bridges.xcp.a2l import description
            from tandem.bridges.xcp.memory import memory_of
        with compiling(f"model-{Path(read.sim.machine).stem}"):
            memory = memory_of(read, *configured_machine(read, config.parent))

        def text(at: int) -> bytes:
            return description(memory, host, at, transport != "udp", transport != "tcp", bool(secret)).encode()

        if a2l is not None:
            _write(a2l, text(port))
            found: dict[str, Any] = {"a2l": str(a2l), "epk": memory.epk, "characteristics": len(memory.parameters)}
            found["measurements"] = sum(len(event.channels) for event in memory.events)
            print(json.dumps(found) if as_json else f"{a2l}: {found['characteristics']} characteristics,"
                  f" {found['measurements']} measurements, EPK {memory.epk}", flush=True)  # fmt: skip
            return
        from tandem.bridges.xcp.server import Server

        _stand_back(read)
        server = Server(read, memory, secret, text, host, port, transport != "udp", transport != "tcp")
        stop = threading.Event()
        set_by_signals(stop, signal.SIGINT, signal.SIGTERM)
        print(f"xcp: {transport} {host}:{server.port}, EPK {memory.epk}", file=sys.stderr, flush=True)
        try:
            server.run(stop)
        finally:
            server.close()
    for notice in server.notices:
        print(f"tandem: xcp: {notice}", file=sys.stderr)
    if as_json:
        print(json.dumps(server.report()), flush=True)
    else:
        output().print(", ".join(f"{count} {name}" for name, count in server.report().items()), markup=False)


def _secret(host: str, key: Path | None) -> bytes:
    from sync.errors import ConfigError
    from sync.files.token import page_token

    try:
        near = ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        raise ConfigError(f"--host {host}: must be an IPv4 address, such as 127.0.0.1") from None
    if not near and key is None:
        raise ConfigError(
            f"--host {host}: is not this machine alone: it needs --key FILE, or leave it at 127.0.0.1 (ssh -L)"
        )
    return page_token(key).encode() if key is not None else b""


def _write(path: Path, text: bytes) -> None:
    from sync.errors import ConfigError
    from sync.files.private import rewrite

    try:
        rewrite(path, text)
    except OSError as error:
        raise ConfigError(f"--a2l {path}: cannot be written: {error.strerror}") from None


def _stand_back(config: Any) -> None:
    """Low priority, and off the cores of the run."""
    import contextlib
    import os

    from sync.process.realtime import off_the_loop

    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 10)
    off_the_loop(config.realtime)
