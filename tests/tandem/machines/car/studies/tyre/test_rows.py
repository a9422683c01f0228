"""Rows of a rig: found, in the right units and signs, or refused in a sentence."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from sync.errors import ConfigError, TandemError
from tandem.machines.car.studies.tyre.rows import read_rows

HEAD = "SA,FZ,FY,IA,P"


def cells(count: int = 400, seed: int = 1) -> np.ndarray:
    """Degrees, newtons, degrees, kPa: of a tyre in ISO axes."""
    rng = np.random.default_rng(seed)
    alpha, load, camber = (
        rng.uniform(-10, 10, count),
        rng.choice([500.0, 1000.0, 2000.0], count),
        rng.uniform(0, 4, count),
    )
    Fy = load * (-np.tanh(0.3 * alpha) - 0.06 * camber)
    return np.stack([alpha, load, Fy, camber, rng.uniform(80, 100, count)], axis=1)


def written(path: Path, table: np.ndarray, head: str = HEAD) -> Path:
    np.savetxt(path, table, delimiter=",", header=head, comments="")
    return path


def test_columns_are_found_by_their_names_and_units_by_their_size(tmp_path: Path) -> None:
    table = cells()
    rows = read_rows(written(tmp_path / "rig.csv", table))
    assert rows.columns["alpha"] == pytest.approx(np.radians(table[:, 0]))
    assert rows.columns["pressure"] == pytest.approx(1e3 * table[:, 4])
    assert "alpha is SA in deg (by the size of its numbers)" in rows.remarks


@pytest.mark.parametrize(
    ("column", "word"), [(1, "fz is turned round"), (0, "alpha is turned round"), (3, "camber is turned round")]
)
def test_a_column_of_the_other_sign_is_turned_round_and_told(tmp_path: Path, column: int, word: str) -> None:
    table = cells()
    right = read_rows(written(tmp_path / "right.csv", table))
    turned = table * np.where(np.arange(5) == column, -1.0, 1.0)
    found = read_rows(written(tmp_path / "turned.csv", turned))
    assert any(remark.startswith(word) for remark in found.remarks)
    for name, values in right.columns.items():
        assert found.columns[name] == pytest.approx(values), name


@pytest.mark.parametrize(
    "head", ["SA [deg],FZ [N],FY [N],IA [deg],P [kPa]", f"{HEAD}\ndeg,N,N,deg,kPa", f"{HEAD}\ndeg,N"]
)
def test_units_of_the_file_count(tmp_path: Path, head: str) -> None:
    assert "alpha is SA in deg" in read_rows(written(tmp_path / "rig.csv", cells(), head)).remarks


def test_columns_signs_and_units_can_be_mapped(tmp_path: Path) -> None:
    path = written(tmp_path / "rig.csv", cells(), "slip,push,side,lean,air")
    rows = read_rows(path, ["alpha=slip:deg", "fz=push:N", "fy=-side:N"])
    assert rows.columns["fy"] == pytest.approx(-cells()[:, 2])
    assert set(rows.columns) == {"alpha", "fz", "fy"}


def test_rows_with_a_number_missing_are_left_out_and_counted(tmp_path: Path) -> None:
    table = cells()
    table[3, 2] = np.nan
    rows = read_rows(written(tmp_path / "rig.csv", table))
    assert len(rows) == len(table) - 1
    assert any("1 of 400 rows have a number missing" in remark for remark in rows.remarks)


def _one_load(table: np.ndarray) -> np.ndarray:
    table[:, 1] = 1000.0
    return table


@pytest.mark.parametrize(
    ("head", "change", "mapping", "words"),
    [
        (HEAD, _one_load, [], "loads from 1000 to 1000 N only"),
        (HEAD, lambda t: t[:50], [], "50 rows with a load; at least 200"),
        ("A,FZ,FY,IA,P", lambda t: t, [], "no column of alpha, usually ALPHA or SA"),
        (HEAD, lambda t: t, ["alpha=SA:rad"], "is no angle of a tyre; it may be in another unit"),
        ("SA [rad],FZ,FY,IA,P", lambda t: t, [], "is no angle of a tyre; it may be in another unit"),
        ("SA [turns],FZ,FY,IA,P", lambda t: t, [], "unit 'turns': must be one of rad, deg"),
        (HEAD, lambda t: t, ["alpha=SB"], "no column 'SB'; there are SA, FZ"),
        (HEAD, lambda t: t, ["slip=SA"], "must be NAME="),
        (HEAD, lambda t: 0.0001 * t * [1, 1e4, 1, 1, 1e4], ["alpha=SA:deg"], "slip hardly changes"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_in_a_sentence(tmp_path, head, change, mapping, words) -> None:
    with pytest.raises(ConfigError, match=words):
        read_rows(written(tmp_path / "rig.csv", change(cells()), head), mapping)


def test_text_in_a_column_is_refused_with_its_row(tmp_path: Path) -> None:
    path = written(tmp_path / "rig.csv", cells())
    lines = path.read_text().splitlines()
    lines[7] = "none" + lines[7]
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=r"rig.csv: columns SA, .*no number 'none"):
        read_rows(path)


def test_a_mat_file_of_a_rig_has_units_and_its_text_is_named(tmp_path: Path) -> None:
    io = pytest.importorskip("scipy.io")
    table = cells()
    columns = dict(zip(HEAD.split(","), table.T, strict=True))
    channel = {"name": np.array(["SA", "P"], object), "units": np.array(["deg", "kPa"], object)}
    io.savemat(tmp_path / "rig.mat", columns | {"channel": channel, "run": np.array(["a", "b"] * 200, object)})
    rows = read_rows(tmp_path / "rig.mat")
    assert rows.columns["alpha"] == pytest.approx(np.radians(table[:, 0]))
    assert {"alpha is SA in deg", "pressure is P in kpa"} <= set(rows.remarks)
    assert f"{tmp_path / 'rig.mat'}: run: holds text and is left out" in rows.remarks
    io.savemat(tmp_path / "words.mat", columns | {"FZ": np.array(["1 kN"] * 400, object)})
    with pytest.raises(ConfigError, match=r"no column of fz, .*; FZ: holds text and is left out"):
        read_rows(tmp_path / "words.mat")


@pytest.mark.drill
def test_a_mat_file_that_says_it_is_larger_than_it_is_does_no_harm(tmp_path: Path) -> None:
    io = pytest.importorskip("scipy.io")
    io.savemat(tmp_path / "rig.mat", dict(zip(HEAD.split(","), cells().T, strict=True)))
    whole = bytearray((tmp_path / "rig.mat").read_bytes())
    for at in range(128, len(whole), 997):  # sizes among them
        (tmp_path / "hurt.mat").write_bytes(bytes(whole[:at]) + b"\xff\xff\xff\x7f" + bytes(whole[at + 4 : at + 2000]))
        with pytest.raises(TandemError):
            read_rows(tmp_path / "hurt.mat")
        if at > 3000:
            break


def test_a_small_mat_file_that_becomes_a_gigabyte_is_refused(tmp_path: Path) -> None:
    count = 100_000_000  # numbers of one column, of zeros
    head = struct.pack("<4L", 6, 8, 6, 0) + struct.pack("<2L2l", 5, 8, count, 1)
    head += struct.pack("<HH4s", 1, 2, b"SA") + struct.pack("<2L", 9, 8 * count)
    packer = zlib.compressobj(9)
    matrix = packer.compress(struct.pack("<2L", 14, len(head) + 8 * count) + head)
    matrix += b"".join(packer.compress(bytes(1 << 23)) for _ in range(96)) + packer.flush()
    text = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    (tmp_path / "rig.mat").write_bytes(text + struct.pack("<2L", 15, len(matrix)) + matrix)
    with pytest.raises(TandemError, match="its variables would take more in memory; at most"):
        read_rows(tmp_path / "rig.mat")


@pytest.mark.parametrize(
    ("name", "text"), [("rig.mat", b"MATLAB 5.0 nothing"), ("rig.csv", b""), ("rig.csv", b"\0" * 99)]
)
def test_what_is_no_table_is_refused(tmp_path: Path, name: str, text: bytes) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(ConfigError):
        read_rows(tmp_path / name)
