"""The double as a process: `python -m tests.daqmx_double --port 0`.

It prints a JSON line with its port. Every JSON line on its standard input is a command, answered by a JSON line; the
end of standard input ends it.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from nidaqmx._stubs import nidaqmx_pb2_grpc as pb_grpc

from tests.daqmx_double.clocks import RealTime, SharedTime
from tests.daqmx_double.device import Device
from tests.daqmx_double.servicer import Servicer


def answer(device: Device, command: dict[str, Any]) -> Any:
    what = command.pop("do")
    if what == "reset":
        return device.reset()
    if what == "configure":
        return device.configure(**command)
    if what == "lose":
        return device.lose()
    if what == "return":
        device.present = True
        return None
    if what == "hold":
        device.held = command["held"]
        return None
    if what == "provoke":
        return device.provoke(**command)
    if what == "state":
        return device.state()
    if what == "written":
        return device.written
    raise ValueError(f"no command {what!r}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--clock", type=Path, help="file with the time to sample in; without one, real time")
    options = parser.parse_args()
    # a port that a dead double still has connections on is free for the next one
    server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
    device = Device(SharedTime(options.clock) if options.clock else RealTime())
    pb_grpc.add_NiDAQmxServicer_to_server(Servicer(device), server)
    port = server.add_insecure_port(f"127.0.0.1:{options.port}")
    server.start()
    print(json.dumps({"port": port}), flush=True)
    for line in sys.stdin:
        try:
            reply = {"ok": answer(device, json.loads(line))}
        except Exception as error:
            reply = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)
    server.stop(0)


if __name__ == "__main__":
    main()
