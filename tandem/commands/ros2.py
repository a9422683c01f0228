"""`tandem ros2`: a running simulation as a node of ROS 2, until Ctrl-C."""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from tandem.console.config_argument import DEFAULT, ConfigFile
from tandem.console.terminal import AsJson, Overrides, errors, output


def ros2(
    config: ConfigFile = DEFAULT,
    overrides: Overrides = None,
    connect: Annotated[
        str, typer.Option(help="The Zenoh router of ROS 2; beyond this machine tls/HOST:PORT, with --tls.")
    ] = "tcp/127.0.0.1:7447",
    domain: Annotated[int, typer.Option(min=0, max=232, help="ROS_DOMAIN_ID.")] = 0,
    namespace: Annotated[str, typer.Option(help="Before the names of topics.")] = "/",
    tls: Annotated[Path | None, typer.Option(help="Folder with ca.pem, cert.pem, key.pem. Default: no TLS.")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish a running simulation in ROS 2, by rmw_zenoh's own keys, until Ctrl-C.

    Joint states, transforms, diagnostics, and every stream of the record, to whoever uses rmw_zenoh at that router.
    Nothing of ROS is needed here.
    """
    from sync.compile.jit import compiling
    from sync.process.threads import set_by_signals

    with errors():
        from sync.config.config import load
        from sync.transport.ros2 import check_endpoint, check_name, load_zenoh, open_session, settings

        read = load(config, overrides or [])
        prefix = "/" if namespace.strip("/") == "" else check_name(namespace, "--namespace")
        check_endpoint(connect, "--connect", tls)
        chosen = settings([connect], tls)
        load_zenoh()  # reports what is missing before anything is compiled
        with compiling("view"):
            from tandem.bridges.ros2.bridge import Bridge
            from tandem.view.process import live_feed
        feed = live_feed(read, config)
        bridge = Bridge(read, feed, open_session(chosen), domain, prefix)
        stop = threading.Event()
        set_by_signals(stop, signal.SIGINT, signal.SIGTERM)
        print(f"ros2: node in domain {domain} at {connect}", file=sys.stderr, flush=True)
        try:
            bridge.run(stop)
        finally:
            bridge.close()
    if as_json:
        print(json.dumps({"sent": bridge.sent, "lost": bridge.lost}), flush=True)
    else:
        sent = ", ".join(f"{count} {topic}" for topic, count in sorted(bridge.sent.items()))
        output().print(f"messages sent: {sent or 'none, nobody subscribed'}", markup=False)
        if bridge.lost:
            output().print(f"blocks that the bridge was too slow for: {bridge.lost}", markup=False)
