"""A subscriber in ROS 2's own words: Zenoh and rosbags, nothing of ours. A process that listens until it is stopped.

    python -m verify.others.ros2_listener ENDPOINT OUT

Types and hashes it has from the keys it hears; the definition of `/step` from nothing but the bytes' length, so these
are kept as they came. The last line it prints is JSON.
"""

import argparse
import itertools
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint")
    parser.add_argument("out", type=Path)
    chosen = parser.parse_args()
    os.nice(10)
    import zenoh
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    config = zenoh.Config()
    for key, value in (("mode", "client"), ("connect/endpoints", [chosen.endpoint]),
                       ("scouting/multicast/enabled", False)):  # fmt: skip
        config.insert_json5(key, json.dumps(value))
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    counts: dict[str, int] = {}
    wrong: list[str] = []
    steps: list[bytes] = []
    numbers: dict[str, list[int]] = {}

    def hear(sample: Any) -> None:
        _, topic, wire, hash_ = str(sample.key_expr).split("/")
        counts[topic] = counts.get(topic, 0) + 1
        data = bytes(sample.payload)
        numbers.setdefault(topic, []).append(int.from_bytes(bytes(sample.attachment)[:8], "little"))
        package, _, _, name = wire.split("::")
        kind = f"{package}/msg/{name.removesuffix('_')}"
        if topic == "step":
            steps.append(data)
        elif kind in store.types:
            if hash_ != store.hash_rihs01(kind):
                wrong.append(f"{topic}: {hash_}")
            elif counts[topic] < 200 and bytes(store.serialize_cdr(store.deserialize_cdr(data, kind), kind)) != data:
                wrong.append(f"{topic}: other bytes")

    with zenoh.open(config) as session:
        with session.declare_subscriber("0/**", hear):
            print("listening", flush=True)
            stop.wait()
        tokens = [str(each.ok.key_expr) for each in session.liveliness().get("@ros2_lv/0/**") if each.ok]
    chosen.out.write_bytes(b"".join(steps))
    gaps = {topic: sum(b - a != 1 for a, b in itertools.pairwise(each)) for topic, each in numbers.items()}
    print(json.dumps({"counts": counts, "wrong": wrong, "gaps": gaps, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    main()
