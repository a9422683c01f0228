"""FMUs of others as machines: stepped by their own code, in the loop, replayed to the bit; hostile files refused."""

import hashlib
import io
import json
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tandem
from sim_service.registry import gather, load_machine, make_machine, recorded
from sync.errors import ConfigError, Diverged
from sync.files import consent
from sync.files.consent import ConsentMissing
from sync.record import open_run
from tandem.commands import cli
from tandem.ensembles.fleet import NO_CONSENT, FleetOptions, replay_record
from tandem.ensembles.manoeuvres import study_machine
from tandem.machines.fmu.archive import DESCRIPTION, PLATFORMS, cache
from tandem.records.replay import Options, replay_run
from tests.foreign_fmu import allow_file, description, foreign_fmu

H = 0.005
KINDS = pytest.mark.parametrize(("version", "stateful"), [(3, True), (3, False), (2, True), (2, False)])

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def expected(u: np.ndarray, gain: float, tau: float) -> np.ndarray:
    """The same equations, in Python."""
    x = total = 0.0
    rows = []
    for value in u.tolist():
        x += H * (gain * value - x) / tau
        total += H * x
        rows.append((x, total, 0.0))
    return np.array(rows)


@KINDS
def test_it_steps_as_its_equations_say_with_our_parameters(tmp_path: Path, version: int, stateful: bool) -> None:
    foreign_fmu(tmp_path, version, stateful)
    model = tandem.load_machine(tmp_path / "lag.toml", {"time_constant": 0.2})
    u = np.sin(0.1 * np.arange(200))
    run = model.run({"u": u}, step_s=H)
    found = np.column_stack([run[name] for name in ("lag_x_1", "sum", "fmu_status")])
    assert found.tobytes() == expected(u, 2.0, 0.2).tobytes()
    model.reset()  # from the start again, with another gain
    model.parameters["gain"] = 5.0
    run = model.run({"u": u}, step_s=H)
    assert run["sum"].tobytes() == np.ascontiguousarray(expected(u, 5.0, 0.2)[:, 1]).tobytes()
    units = {q.name: q.unit for q in (*model.inputs, *model.outputs)}
    assert units == {"u": "N", "lag_x_1": "m", "sum": "m.s", "fmu_status": "1"}
    with pytest.raises(ConfigError, match="shapes the model"):
        model.parameters["time_constant"] = 0.3


@pytest.mark.parametrize("version", [3, 2])
def test_a_state_that_can_be_taken_out_makes_the_step_one_of_its_arguments(tmp_path: Path, version: int) -> None:
    """Two models of one instance, in turns, each with a past of its own."""
    foreign_fmu(tmp_path, version)
    model = tandem.load_machine(tmp_path / "lag.toml")
    alone = (
        expected(np.array([1.0] * 10 + [2.0] * 10), 2.0, 0.1),
        expected(np.array([1.0] * 10 + [-3.0] * 10), 2.0, 0.1),
    )
    model.run({"u": 1.0}, 10, H)
    other = model.copy()
    for k in range(10):
        first, second = model.step({"u": 2.0}, H), other.step({"u": -3.0}, H)
        assert (first["sum"], second["sum"]) == (alone[0][10 + k, 1], alone[1][10 + k, 1])


def test_without_such_a_state_it_goes_on_only_from_where_it_stands(tmp_path: Path) -> None:
    foreign_fmu(tmp_path, stateful=False)
    model = tandem.load_machine(tmp_path / "lag.toml")
    model.run({"u": 1.0}, 10, H)
    before = model.state
    model.step({"u": 1.0}, H)
    after, model.state = model.state, before
    with pytest.raises(Diverged):
        model.step({"u": 1.0}, H)
    model.state = after
    with pytest.raises(Diverged):  # nor after that: nothing vouches for where it stands
        model.step({"u": 1.0}, H)
    model.reset()
    assert model.step({"u": 1.0}, H)["lag_x_1"] == expected(np.ones(1), 2.0, 0.1)[0, 0]


@pytest.mark.parametrize("version", [3, 2])
def test_a_step_that_fails_is_a_divergence_and_says_why(
    tmp_path: Path, version: int, capfd: pytest.CaptureFixture[str]
) -> None:
    foreign_fmu(tmp_path, version)
    model = tandem.load_machine(tmp_path / "lag.toml")
    model.run({"u": 1.0}, 10, H)
    before = model.state
    for too_much in (1500.0, -600.0):  # an error; a step that is not made to its end
        with pytest.raises(Diverged, match="lag_x_1 became nan"):
            model.step({"u": too_much}, H)
        assert model.state.tobytes() == before.tobytes()
    assert "the input is too large" in capfd.readouterr().err
    assert model.step({"u": 600.0}, H)["fmu_status"] == 1.0  # a warning; and it goes on from where it stood
    assert model.step({"u": 1.0}, H)["sum"] == expected(np.array([1.0] * 10 + [600.0, 1.0]), 2.0, 0.1)[-1, 1]
    for _ in range(2):  # a fatal error, after which nothing is called
        with pytest.raises(Diverged):
            model.step({"u": 2500.0}, H)
    with pytest.raises(Diverged):
        model.step({"u": 1.0}, H)
    assert capfd.readouterr().err.count("far too large") == 1


def test_it_runs_in_the_loop_and_replays_to_the_bit(tmp_path: Path) -> None:
    """Real processes; only with consent. The record has no code, and is replayed where the FMU is known."""
    file = foreign_fmu(tmp_path, xml=description() + f"<!-- {tmp_path} -->", allowed=False)
    (tmp_path / "lag_run.toml").write_text(
        """
name = "foreign_fmu"
transport.kind = "shm"
view.enabled = false
source = { kind = "waves", channels = { force = { wave = "sine", hz = 2.0, amplitude_counts = 400.0 } } }
[inputs.force]
kind = "encoder"
channel = "force"
unit = "N"
per_count = 0.01
least = -10.0
most = 10.0
to = ["u"]
stale = { hold_ms = 100.0, ramp_ms = 200.0, safe = 0.0 }
[daq]
rate_hz = 1000.0
channels = [{ name = "force", type = "i4", unit = "count", counter_bits = 32 }]
[sim]
step_ms = 5.0
machine = "lag.toml"
"""
    )
    command = [sys.executable, "-m", "tandem", "run", "lag_run.toml", "--seconds", "1", "--runs", "runs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == ConsentMissing.code and "`tandem fmu lag.fmu --allow`" in done.stderr, done.stderr
    assert not [*(tmp_path / "runs").glob("*")] and not (cache() / hash_of(file)).exists()
    allow_file(file)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    run = open_run(folder)
    assert {"machine.toml", "fmu.xml", "fmu.sha256"} <= set(run.attachments) and "lag.fmu" not in run.attachments
    done_again = replay_run(folder, Options("exact"))
    columns = done_again.columns()
    assert done_again.figures["identical"] and len(columns["sum"]) > 100 and np.ptp(columns["sum"]) > 0.0
    ours = expected(columns["u"], 2.0, 0.1)
    assert np.ascontiguousarray(ours[:, 1]).tobytes() == np.ascontiguousarray(columns["sum"]).tobytes()
    known = cache() / run.attachments["fmu.sha256"].decode()
    command = [sys.executable, "-m", "tandem", "replay", str(folder)]
    consent.revoke(known.name)  # it is unpacked here, the record names it, and still it is not loaded
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == consent.ConsentMissing.code
    assert f"SHA-256 {known.name}" in refused.stderr and "tandem fmu FILE.fmu --allow" in refused.stderr
    row = replay_record(str(run.path), "", FleetOptions())
    assert row["status"] == NO_CONSENT and "--allow" in row["error"] and row["again"]
    consent.allow(known.name, "lag.fmu")
    assert replay_record(str(run.path), "", FleetOptions())["status"] == "identical"
    known.rename(known.with_suffix(".away"))
    try:
        with pytest.raises(ConfigError, match="is not here, and a record has no code of others"):
            replay_run(folder, Options("exact"))
    finally:
        known.with_suffix(".away").rename(known)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("in_process = true", r"lag\.toml: in_process = True: unknown"),
        ("inputs.force = 'uu'", r"inputs\.force = 'uu': no input of this FMU; there are u"),
        ("outputs.x = 'lag.x'", r"outputs\.x = 'lag\.x': no output of this FMU; there are lag\.x"),
        ("outputs.sums = 'sums'", r"outputs\.sums = 'sums': is an array or no float"),
        ("outputs.'a b' = 'sum'", r"'a b' cannot be the name of a channel; a_b could"),
        ("parameters.gian = 1.0", r"parameters\.gian = 1: unknown to this FMU; did you mean gain"),
        ("parameters.time_constant = -1.0", "cannot be initialised with these parameters"),
        ("step = 1", r"step"),
    ],
)  # fmt: skip
def test_what_a_machine_file_has_wrong_is_said(tmp_path: Path, text: str, why: str) -> None:
    extra = '<Float64 name="sums" valueReference="9" causality="output"><Dimension start="3"/></Float64>'
    foreign_fmu(tmp_path, xml=description(extra=extra))
    (tmp_path / "lag.toml").write_text(f'machine = "fmu"\nfile = "lag.fmu"\n{text}\n')
    with pytest.raises(ConfigError, match=why):
        load_machine(tmp_path / "lag.toml")


@pytest.mark.parametrize(
    ("xml", "why"),
    [
        (description(token="{another}"), "gives no instance: the token is another one"),
        (description().replace('"3.0"', '"1.0"'), "fmiVersion = '1.0': 3.0 and 2.0 are read"),
        (description().replace("CoSimulation", "ModelExchange"), "is for ModelExchange; one for CoSimulation"),
        (description().replace('modelIdentifier="lag"', 'modelIdentifier="other"'), "has no code for .*other.so"),
        (description().replace('modelIdentifier="lag"', 'modelIdentifier="../lag"'), "is no identifier"),
        (description().replace('start="2.0"', 'start="two"'), "gain: start = 'two': must be a number"),
        (description().replace("4000000001", "5000000000"), "valueReference = 5000000000: must be below"),
        (description()[:200], "is no XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + description(), "has a document type"),
        ("<a>" * 1000, "more than 64 elements inside each other"),
        (description().replace('name="sum"', 'name="lag_x(1)"'), "would both be called lag_x_1"),
    ],
)  # fmt: skip
def test_a_description_that_is_wrong_is_refused_by_name(tmp_path: Path, xml: str, why: str) -> None:
    foreign_fmu(tmp_path, xml=xml)
    with pytest.raises(ConfigError, match=why) as raised:
        load_machine(tmp_path / "lag.toml")
    assert "lag.fmu" in str(raised.value) or "lag.toml" in str(raised.value)


def archive_of(**entries: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {DESCRIPTION: description().encode(), **entries}.items():
            archive.writestr(name, content)
    return made.getvalue()


def linked() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        entry = zipfile.ZipInfo("resources/link")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    return made.getvalue()


def lying() -> bytes:
    """More in it than its directory says: a size of 10 where a megabyte is."""
    content = bytearray(archive_of(**{"resources/big": bytes(1 << 20)}))
    at = content.rindex(b"PK\x01\x02")
    content[at + 24 : at + 28] = (10).to_bytes(4, "little")
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lambda: b"no zip file at all", "no readable FMU"),
        (lambda: b"", "no readable FMU"),
        (lambda: archive_of()[:-30], "no readable FMU"),
        (lambda: archive_of(**{"../../up.txt": b""}), "leads out of the archive"),
        (lambda: archive_of(**{"/etc/up.txt": b""}), "leads out of the archive"),
        (lambda: archive_of(**{"resources\\..\\..\\up": b""}), "leads out of the archive"),
        (lambda: archive_of(**{"C:/up": b""}), "leads out of the archive"),
        (linked, "is a link"),
        (lying, "no readable FMU|is larger than it says"),
        (lambda: archive_of(**{DESCRIPTION: bytes(33 << 20)}), "would be 34603008 bytes"),
        (lambda: archive_of(**{f"resources/{k}": b"" for k in range(20_001)}), "at most 20000 are read"),
        (archive_of, f"has no code for {PLATFORMS[3]}"),
        (lambda: archive_of(**{f"binaries/{PLATFORMS[3]}/lag.so": b"no library"}), "cannot be loaded"),
    ],
    ids=range(13),
)  # fmt: skip
def test_a_hostile_file_is_refused_and_leaves_nothing(tmp_path: Path, content: Callable[[], bytes], why: str) -> None:
    (tmp_path / "lag.fmu").write_bytes(content())
    allow_file(tmp_path / "lag.fmu")
    (tmp_path / "lag.toml").write_text('machine = "fmu"\nfile = "lag.fmu"\n')
    with pytest.raises(ConfigError, match=why):
        load_machine(tmp_path / "lag.toml")
    assert not [*cache().glob(".part-*")] and not (tmp_path / "up.txt").exists()


def hash_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_without_consent_nothing_is_unpacked_and_no_file_gives_it(tmp_path: Path) -> None:
    file = foreign_fmu(tmp_path, xml=description() + f"<!-- {tmp_path} -->", allowed=False)
    before = {*cache().iterdir()}
    for text in ("in_process = true\n", f"consent = '{hash_of(file)}'\n", ""):
        (tmp_path / "lag.toml").write_text(f'machine = "fmu"\nfile = "lag.fmu"\n{text}')
        with pytest.raises((ConsentMissing, ConfigError), match=r"tandem fmu \S+lag.fmu --allow|consent|in_process"):
            load_machine(tmp_path / "lag.toml")
    with pytest.raises(ConsentMissing):
        study_machine(str(tmp_path / "lag.toml"), {}, tmp_path, "study.toml")
    assert {*cache().iterdir()} == before and not (cache() / hash_of(file)).exists()


def test_a_record_that_names_its_hash_does_not_load_it_without_consent(tmp_path: Path) -> None:
    """Unpacked or not: a refused FMU stays refused."""
    file = foreign_fmu(tmp_path)
    files = gather(tmp_path / "lag.toml").files
    assert (cache() / hash_of(file)).is_dir()
    consent.revoke(hash_of(file))
    with pytest.raises(ConsentMissing, match=rf"SHA-256 {hash_of(file)}\); `tandem fmu FILE.fmu --allow`"):
        make_machine(recorded(files, "run.mcap"))
    allow_file(file)
    assert make_machine(recorded(files, "run.mcap"))[0].name == "fmu"
    for wrong in (b"../../etc", b"a" * 64 + b"/..", b"", b"A" * 64):
        with pytest.raises(ConfigError, match="is no hash of an FMU"):
            make_machine(recorded({**files, "fmu.sha256": wrong}, "run.mcap"))


def test_another_file_in_its_place_needs_consent_of_its_own(tmp_path: Path) -> None:
    file = foreign_fmu(tmp_path)
    load_machine(tmp_path / "lag.toml")
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("resources/more.txt", "other")
    with pytest.raises(ConsentMissing):
        load_machine(tmp_path / "lag.toml")


@pytest.mark.parametrize("mode", [0o770, 0o1777])
def test_code_is_not_taken_from_a_folder_that_others_may_write(
    tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign_fmu(tmp_path)
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "fmu").mkdir()
    (tmp_path / "shared" / "fmu").chmod(mode)
    with pytest.raises(ConfigError, match="shared/fmu: others may write it, and compiled code is run from there"):
        load_machine(tmp_path / "lag.toml")


def tandem_fmu(*words: str | Path, answer: str = "") -> Any:
    return CliRunner().invoke(cli.app, ["fmu", *map(str, words)], input=answer)


def test_the_command_shows_what_it_is_asks_and_takes_back(tmp_path: Path) -> None:
    xml = description().replace('modelName="lag"', 'modelName="lag \\x1b[2J" version="1.4" generationTool="hand"')
    file = foreign_fmu(tmp_path, xml=xml, allowed=False)
    hash, folder = hash_of(file), cache() / hash_of(file)
    shutil.rmtree(folder, ignore_errors=True)
    shown = tandem_fmu(file)
    for text in ("1.4", "hand", "3.0", PLATFORMS[3], hash, "u (N)", "lag.x[1] (m), sum (m.s)", "may not run here"):
        assert text in shown.output, text
    assert shown.exit_code == 0 and "\x1b[2J" not in shown.output
    assert tandem_fmu(file, "--allow", answer="n\n").exit_code == 1
    assert hash not in consent.consented() and not folder.exists()
    assert tandem_fmu(file, "--allow", answer="y\n").exit_code == 0
    assert hash in consent.consented() and folder.is_dir()
    assert load_machine(tmp_path / "lag.toml")[0].name == "fmu"
    assert f"{hash}  lag.fmu" in tandem_fmu("--list").output
    assert tandem_fmu(hash, "--revoke").exit_code == 0  # the file may be gone
    assert hash not in consent.consented() and not folder.exists()
    again = json.loads(tandem_fmu(file, "--allow", "--yes", "--json").output)
    assert again["consent"] and again["sha256"] == hash and again["outputs"] == ["lag.x[1] (m)", "sum (m.s)"]


def test_only_what_is_needed_is_unpacked_for_its_owner_alone(tmp_path: Path) -> None:
    foreign_fmu(tmp_path)
    made, _ = load_machine(tmp_path / "lag.toml")
    folder = next(cache() / name for name in (p.name for p in cache().iterdir()) if name[:16] in made.placed.layout)
    there = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert there == {DESCRIPTION, f"binaries/{PLATFORMS[3]}/lag.so", "resources/note.txt"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_copies_that_would_be_stepped_at_once_are_refused(tmp_path: Path) -> None:
    foreign_fmu(tmp_path)
    with pytest.raises(ConfigError, match="no two copies are stepped at once"):
        tandem.batch(tmp_path / "lag.toml", 4)
