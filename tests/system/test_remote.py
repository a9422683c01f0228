"""A DAQ that has another DAQ as its source; and the keys of both, made as a person would."""

import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sync.record import open_run
from sync.ring.follower import RingFollower
from sync.ring.streams import ring_name
from tests.ports import free_port
from tests.system.conftest import DRIVE, ROOT, Program, tandem, until

Start = Callable[..., Program]
CHANNELS = ("brake", "throttle", "steering")


def _settings(**values: object) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts)


@pytest.mark.drill
def test_two_daqs_in_a_chain_lose_nothing(start: Start, name: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    for own in ("daq", "sim"):
        made = tandem("keys", own, "--folder", str(keys))
        assert made.code == 0, made.said
        assert f"{own}.key_secret: secret" in made.printed and "scp" in made.printed
    ports = [free_port() for _ in range(4)]
    first = start(
        "tandem", "daq", str(DRIVE), "--json",
        *_settings(
            name=name, transport__kind="tcp", transport__daq_port=ports[0], transport__sim_port=ports[1],
            transport__clock_port=ports[2], transport__every_port=ports[3], transport__keys=keys,
        ),
    )  # fmt: skip
    second = start(
        "tandem", "daq", str(ROOT / "configs" / "remote.toml"), "--json",
        *_settings(name=f"{name}_b", source__host="127.0.0.1", source__port=ports[3], source__keys=keys),
    )  # fmt: skip
    second.wait_for("waiting for blocks from")
    there, here = RingFollower(ring_name(name, "daq")), RingFollower(ring_name(f"{name}_b", "daq"))
    sampled: list[np.ndarray] = []
    taken: list[np.ndarray] = []

    def look() -> bool:
        sampled.extend(there.batches())
        taken.extend(here.batches())
        return sum(map(len, taken)) >= 3000

    until(look, lambda: f"{first.said}\n{second.said}")
    second.signal(signal.SIGINT)
    assert second.end() == 0, second.said
    sampled += there.batches()
    first.signal(signal.SIGINT)
    assert first.end() == 0, first.said
    origin, far = _joined(sampled), _joined(taken)
    there.close()
    here.close()
    assert there.lost == here.lost == 0
    begun = int(np.searchsorted(origin["t_ns"], far["t_ns"][0]))
    same = origin[begun : begun + len(far)]
    assert (same["t_ns"] == far["t_ns"]).all()
    assert all((same[channel] == far[channel]).all() for channel in CHANNELS)
    report = second.json()
    assert report["lost"] == 0 and report["source"]["gaps"] == 0 and report["source"]["received"] >= 3000
    assert first.json()["refused"] == 0 and first.json()["every_sent"] == first.json()["blocks"]


def test_a_drive_behind_another_daq_knows_its_ages_with_their_bound(start: Start, drive: Start, name: str) -> None:
    """The other host's clock is wrong by three seconds: estimated, and how well is told with every step."""
    ports = [free_port() for _ in range(4)]
    origin = start(
        "tandem", "daq", str(DRIVE),
        *_settings(
            name=f"{name}_a", transport__kind="tcp", transport__daq_port=ports[0], transport__sim_port=ports[1],
            transport__clock_port=ports[2], transport__every_port=ports[3], transport__clock="estimate",
            transport__artificial_clock="{offset_ms=3000.0}",
        ),
    )  # fmt: skip
    origin.wait_for("blocks ")
    asked = {"source__host": "127.0.0.1", "source__port": ports[3], "source__clock_port": ports[2]}
    remote = ROOT / "configs" / "remote.toml"
    run = drive(
        "--seconds", "2", "--json", *_settings(source__clock="estimate", source__keys='""', **asked), config=remote
    )
    assert run.end() == 0, run.said
    origin.signal(signal.SIGINT)
    assert origin.end() == 0, origin.said
    result = run.json()
    assert result["source_lost"] == 0 and result["balance"]["closes"]
    # an age is never less than its bound below zero, and three seconds off is what it would be without the estimate
    assert 0 < result["bound_us"] < 1e6
    steps = open_run(Path(result["record"]["file"])).topics["/step"].blocks
    assert -1e3 * result["bound_us"] < steps["input_age_ns"].min() < 1e9
    assert (steps["age_bound_ns"][-100:] > 0).all()


@pytest.mark.parametrize("what", ["missing", "readable"])
def test_a_drive_with_wrong_keys_does_not_start(tmp_path: Path, what: str) -> None:
    keys = tmp_path / "keys"
    if what == "readable":
        from sync.transport.keys import make_keys

        make_keys(keys, "daq")
        make_keys(keys, "sim")
        (keys / "sim.key_secret").chmod(0o644)
    settings = ("--set", "transport.kind=tcp", "--set", f"transport.keys={keys}")
    run = tandem("drive", str(DRIVE), "--seconds", "1", *settings, "--runs", str(tmp_path / "runs"))
    assert run.code == 2
    said = {"missing": f"{keys}: no such folder of keys", "readable": f"chmod 600 {keys}/sim.key_secret"}[what]
    assert said in run.said


def test_keys_are_made_once_and_listed(tmp_path: Path) -> None:
    folder = ("--folder", str(tmp_path / "keys"))
    empty = tandem("keys", *folder)
    assert empty.code == 2 and "tandem keys NAME" in empty.said
    assert tandem("keys", "daq", *folder).code == 0
    again = tandem("keys", "daq", *folder)
    assert again.code == 2 and "is there already" in again.said
    wrong = tandem("keys", "../daq", *folder)
    assert wrong.code == 2 and "small letters" in wrong.said
    for arguments in ((), ("daq", "--list")):
        listed = tandem("keys", *arguments, *folder)
        assert listed.code == 0
        assert listed.printed.strip() == f"{tmp_path / 'keys' / 'daq'}  a pair of this host"
