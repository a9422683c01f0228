"""`tandem foxglove`: the live bridge to Foxglove, until Ctrl-C."""

import json
import signal
import sys
import threading
from typing import Annotated

import typer

from tandem.console.config_argument import DEFAULT, ConfigFile
from tandem.console.terminal import AsJson, Overrides, errors, output


def foxglove(
    config: ConfigFile = DEFAULT,
    overrides: Overrides = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On this machine; 0: any that is free.")] = 8765,
    as_json: AsJson = False,
) -> None:
    """Show a running simulation in Foxglove: every topic, the machine's motion and its scene, until Ctrl-C.

    Open ws://127.0.0.1:PORT there ("Open connection"). It listens on this machine alone; from another one, `ssh -L`.
    """
    from sync.compile.jit import compiling
    from sync.process.threads import set_by_signals

    with errors():
        from sync.config.config import load

        read = load(config, overrides or [])
        with compiling("view"):
            from tandem.records.foxglove.bridge import HOST, Bridge, load_sdk
            from tandem.view.process import live_feed
        load_sdk()  # reports what is missing before anything is compiled
        bridge = Bridge(read, live_feed(read, config), port)
        stop = threading.Event()
        set_by_signals(stop, signal.SIGINT, signal.SIGTERM)
        print(f"foxglove: ws://{HOST}:{bridge.port}", file=sys.stderr, flush=True)
        try:
            bridge.run(stop)
        finally:
            bridge.close()
    if as_json:
        print(json.dumps({"sent": bridge.sent, "cut": bridge.clients.cut}), flush=True)
    else:
        sent = ", ".join(f"{count} {topic}" for topic, count in sorted(bridge.sent.items()))
        output().print(f"messages sent: {sent or 'none, nobody subscribed'}", markup=False)
        if bridge.clients.cut:
            output().print(f"clients cut off: {bridge.clients.cut} (too many, or they did not read)", markup=False)
