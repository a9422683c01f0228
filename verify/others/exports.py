"""What tools of others read from an exported run: every step, one channel to the bit, beside our own reading.

pip install duckdb polars    # beside tandem, for their rows; the others are there for the tests
"""

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sync.child_python import python_command, python_environment
from sync.record import open_run
from verify import ROOT
from verify.measure import Result, figure, holds

RECORD = ROOT / "tests" / "golden" / "lane_change.mcap"
CHANNEL = "vx"


def exports() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        shutil.copy(RECORD, run / "run.mcap")
        wanted = open_run(run).topics["/step"].blocks[CHANNEL]
        for kind in ("mcap", "mf4", "parquet", "csv"):
            words = python_command("-m", "tandem", "export", str(run), "--to", kind)
            subprocess.run(words, env=python_environment(), check=True, capture_output=True)
        for needs, (what, read) in _READERS.items():
            if importlib.util.find_spec(needs) is None:
                yield figure(f"{needs}, {what}", "not here")
                continue
            try:
                found = read(run / "export")
                same = np.array_equal(np.asarray(found), wanted, equal_nan=True)
                yield holds(f"{needs}, {what}: {len(wanted)} steps, {CHANNEL} to the bit", same)
            except Exception as error:
                yield holds(f"{needs}, {what}", False, f"{type(error).__name__}: {error}"[:200])


def _mcap(folder: Path) -> list[float]:
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory

    with open(folder / "run.mcap", "rb") as stream:
        messages = make_reader(stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages(topics=["/step"])
        return [getattr(message, CHANNEL) for *_, message in messages]


def _rosbags(folder: Path) -> list[float]:
    from rosbags.highlevel import AnyReader

    with AnyReader([folder / "run.mcap"]) as bag:
        steps = [each for each in bag.connections if each.topic == "/step"]
        return [getattr(bag.deserialize(raw, to.msgtype), CHANNEL) for to, _, raw in bag.messages(connections=steps)]


def _asammdf(folder: Path) -> np.ndarray:
    from asammdf import MDF

    with MDF(folder / "run.mf4") as file:
        (place,) = file.whereis(CHANNEL)
        return np.asarray(file.get(group=place[0], index=place[1]).samples)


def _pyarrow(folder: Path) -> np.ndarray:
    from pyarrow import parquet

    return np.asarray(parquet.read_table(folder / "parquet" / "step.parquet")[CHANNEL])


def _pandas(folder: Path) -> np.ndarray:
    import pandas

    table = pandas.read_csv(folder / "csv" / "step.csv", float_precision="round_trip")
    (column,) = [name for name in table.columns if name.split(" ")[0] == CHANNEL]
    return np.asarray(table[column])


def _polars(folder: Path) -> np.ndarray:
    import polars

    return np.asarray(polars.read_parquet(folder / "parquet" / "step.parquet")[CHANNEL])


def _duckdb(folder: Path) -> np.ndarray:
    import duckdb

    file = folder / "parquet" / "step.parquet"
    return np.asarray(duckdb.read_parquet(str(file)).select(CHANNEL).fetchnumpy()[CHANNEL])


_READERS: dict[str, tuple[str, Callable[[Path], np.ndarray | list[float]]]] = {
    "mcap_ros2": ("MCAP", _mcap),
    "rosbags": ("MCAP", _rosbags),
    "asammdf": ("MF4", _asammdf),
    "pyarrow": ("Parquet", _pyarrow),
    "pandas": ("CSV", _pandas),
    "polars": ("Parquet", _polars),
    "duckdb": ("Parquet", _duckdb),
}
