"""pyxcp as the master of a slave of ours: a process that measures for a while, as a tool would.

    python -m verify.others.xcp_master DESCRIPTION OUT --seconds 60 --channels 50

What to measure and where the slave listens it has from the A2L alone; the last line it prints is JSON.
"""

import argparse
import json
import logging
import os
import re
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

_KINDS = {"FLOAT64_IEEE": "F64", "A_INT64": "I64", "A_UINT64": "U64"}
_MEASUREMENT = re.compile(r"/begin MEASUREMENT (\w+) .*\n(\w+) .*\nECU_ADDRESS 0x([0-9A-F]+)")
_VALUE = re.compile(r"/begin CHARACTERISTIC (\w+) .*\nVALUE 0x([0-9A-F]+) ")
_EVENT = re.compile(r"EVENT 0x([0-9A-F]+) /end DAQ_EVENT")


def channels_of(text: str, count: int) -> list[tuple[str, int, int, str]]:
    """Name, address, its extension and type of so many channels of eight bytes of a step: its instant first."""
    found = []
    for block in text.split("/begin MEASUREMENT ")[1:]:
        match = _MEASUREMENT.match("/begin MEASUREMENT " + block)
        event = _EVENT.search(block)
        if match and event and int(event[1], 16) == 0 and match[2] in _KINDS:
            found.append((match[1], int(match[3], 16), 0, _KINDS[match[2]]))
    found.sort(key=lambda each: each[0] != "t_ns")
    return found[:count]


def master(port: int, protocol: str, policy: Any = None, secret: bytes = b"") -> Any:
    """A master of pyxcp, not connected yet."""
    from pyxcp.config import create_application_from_config, set_application
    from pyxcp.master import Master

    from tandem.bridges.xcp.slave import key_for

    general: dict[str, Any] = {"max_retries": 1}
    if secret:
        general["seed_n_key_function"] = lambda resource, seed: key_for(secret, bytes(seed), resource)
    eth = {"host": "127.0.0.1", "port": port, "protocol": protocol, "tcp_nodelay": True}
    application = create_application_from_config({"Transport": {"Eth": eth}, "General": general}, logging.ERROR)
    set_application(application)
    return Master("eth", config=application, policy=policy)


def measuring(channels: list[tuple[str, int, int, str]], rows: list[tuple[int, list[float]]]) -> Any:
    """A policy of pyxcp that notes every row it decodes."""
    from pyxcp.daq_stim import DaqList, DaqOnlinePolicy

    class Noting(DaqOnlinePolicy):  # type: ignore[misc]
        def on_daq_list(self, daq_list: int, timestamp0: int, timestamp1: int, payload: list[float]) -> None:
            rows.append((timestamp1, list(payload)))

        def initialize(self) -> None:
            pass

        def finalize(self) -> None:
            pass

    return Noting([DaqList("steps", 0, False, True, channels, 0, 1)], logger=None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("description", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--channels", type=int, default=50)
    parser.add_argument("--protocol", default="TCP")
    parser.add_argument("--write", nargs=2, default=None, metavar=("NAME", "FACTOR"))
    chosen = parser.parse_args()
    sys.argv = sys.argv[:1]  # pyxcp looks at it
    os.nice(10)  # a tool is on another machine; here it may not take the loop's time
    text = chosen.description.read_text()
    port = int(re.search(rf"XCP_ON_{chosen.protocol}_IP 0x\w+ 0x(\w+)", text)[1], 16)  # type: ignore[index]
    channels = channels_of(text, chosen.channels)
    rows: list[tuple[int, list[float]]] = []
    policy = measuring(channels, rows)
    result: dict[str, Any] = {"channels": len(channels)}
    with master(port, chosen.protocol, policy) as slave:
        slave.connect()
        if chosen.write:
            address = int(dict(_VALUE.findall(text))[chosen.write[0]], 16)
            (before,) = struct.unpack("<d", bytes(slave.shortUpload(8, address)))
            wanted = before * float(chosen.write[1])
            slave.setMta(address)
            slave.download(struct.pack("<d", wanted))
            (now,) = struct.unpack("<d", bytes(slave.shortUpload(8, address)))
            result |= {"before": before, "written": wanted, "read": now}
        policy.setup()
        policy.start()
        time.sleep(chosen.seconds)
        policy.stop()
        time.sleep(0.3)
        slave.disconnect()
    result["rows"] = len(rows)
    kinds = {"F64": np.float64, "I64": np.int64, "U64": np.uint64}
    types = {name: kinds[kind] for name, _, _, kind in channels}
    order = [name for name, _ in policy.daq_lists[0].headers]  # pyxcp sorts them by address
    columns: dict[str, Any] = {n: np.array([row[k] for _, row in rows], types[n]) for k, n in enumerate(order)}
    np.savez(chosen.out, stamps=np.array([stamp for stamp, _ in rows], np.int64), **columns)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
