"""The doctor says what is wrong with a machine, and what to do; checked on this one, and on this one made worse."""

import errno
import importlib
import io
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ConfigDict
from rich.console import Console

from daq_service.devices import DEVICES
from daq_service.devices.contract import DeviceSettings
from sync.config.config import Config, load, runtime_directory
from sync.errors import ConfigError, DeviceError, RingError
from sync.ring.ring import SHM, RingWriter
from sync.ring.streams import SOCKETS
from tandem import doctor
from tandem.console.present import print_report
from tandem.doctor import (
    CHECKS,
    ON_TIME,
    Case,
    Finding,
    devices,
    examine,
    exit_code,
    machine,
    measure,
    print_findings,
    report,
)
from tandem.live.supervisor.supervise import sweep
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
DRIVE = ROOT / "configs" / "drive.toml"
_number = itertools.count()


def _left(name: str) -> list[str]:
    return [str(p) for folder in (SHM, runtime_directory()) for p in folder.glob(f"*{name}*")]


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"doctor_test_{os.getpid()}_{next(_number)}"
    yield chosen
    assert _left(chosen) == []


@pytest.fixture
def config(name: str) -> Config:
    return load(DRIVE, [f"name={name}"])


def _case(config: Config, seconds: float = 0.2) -> Case:
    return Case(config, DRIVE, seconds)


# ---- the whole -------------------------------------------------------------------------------------------------------


def test_every_check_speaks_and_what_does_not_pass_has_a_remedy(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun: list[str] = []
    findings = list(examine(config, DRIVE, 1.0, begun.append))
    brought = [check.name for rows in doctor.all_rows() for check in rows.checks]
    assert [f.name for f in findings] == begun == [*(c.name for c in CHECKS), *brought]
    for found in findings:
        assert found.verdict in ("pass", "warn", "fail")
        assert found.reason
        assert bool(found.remedy) == (found.verdict != "pass"), found
        assert "the check itself failed" not in found.reason, found
    told = json.loads(json.dumps(report(findings).data, allow_nan=False))
    assert told["code"] == exit_code(findings)
    assert [f["name"] for f in told["findings"]] == begun
    assert _left(f"doctor_{os.getpid()}_") == []
    assert list(tmp_path.iterdir()) == []
    by_name = {f.name: f for f in findings}
    assert by_name["timer"].figures["n"] == 200
    assert by_name["ring"].figures["torn"] == 0
    assert by_name["ring"].figures["modes"] == ["0o600"]
    assert by_name["disk"].figures["mb_s"] > 0


def test_findings_come_one_by_one(config: Config) -> None:
    """Nothing is measured before somebody asks for it: a person sees the first line at once."""
    heard: list[str] = []
    findings = examine(config, DRIVE, 1000.0, heard.append)
    assert next(findings).name == CHECKS[0].name
    assert heard == [CHECKS[0].name]


def test_a_check_that_breaks_is_a_finding(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Case) -> Finding:
        raise ZeroDivisionError("of the doctor's own")

    monkeypatch.setattr(doctor, "CHECKS", (doctor.Check("broken", broken), doctor.Check("cores", machine.cores)))
    monkeypatch.setattr(doctor, "_all_checks", lambda: iter(doctor.CHECKS))
    findings = list(examine(config, DRIVE))
    assert [f.name for f in findings] == ["broken", "cores"]
    assert findings[0].verdict == "fail"
    assert "ZeroDivisionError" in findings[0].reason
    assert findings[0].remedy
    assert exit_code(findings) == 5


def test_a_folder_for_sockets_that_cannot_be_made_is_said(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = tuple(check for check in CHECKS if check.name in ("other runs", "transport"))
    with monkeypatch.context() as inside:
        inside.setenv("XDG_RUNTIME_DIR", "/proc/nowhere")
        inside.setattr(doctor, "CHECKS", checks)
        inside.setattr(doctor, "_all_checks", lambda: iter(checks))
        findings = list(examine(config, DRIVE))
    assert [f.verdict for f in findings] == ["fail", "fail"]
    assert all("XDG_RUNTIME_DIR" in f.reason and f.remedy for f in findings)


@pytest.mark.parametrize(
    "verdicts, code",
    [
        ({}, 0),
        ({"cores": "warn", "ports": "warn"}, 0),
        ({"real-time permission": "warn"}, 4),
        ({"locked memory": "warn", "ports": "warn"}, 4),
        ({"timer": "warn"}, 4),
        ({"disk": "fail"}, 5),
        ({"disk": "fail", "real-time permission": "warn"}, 5),
        ({"timer": "fail"}, 5),
    ],
)
def test_exit_codes_are_those_of_the_table(verdicts: dict[str, Any], code: int) -> None:
    findings = [Finding(c.name, verdicts.get(c.name, "pass"), "so it is") for c in CHECKS]
    assert exit_code(findings) == exit_code(iter(findings)) == code
    assert report(findings).exit_code == code


def test_exit_codes_are_documented() -> None:
    assert set(ON_TIME) <= {c.name for c in CHECKS}
    assert re.findall(r"^ {4}(\d) ", doctor.__doc__ or "", re.MULTILINE) == ["0", "4", "5"]


def test_people_read_every_reason_and_remedy() -> None:
    out = io.StringIO()
    findings = [
        Finding("cores", "pass", "all [bold]well[/bold]"),
        Finding("timer", "warn", "late", "hurry [/up]"),
        Finding("disk", "fail", "full", "empty it"),
    ]
    assert print_findings(Console(file=out, width=120), iter(findings)) == findings
    print_report(Console(file=out, width=120), report(findings))
    text = out.getvalue()
    for words in ("all [bold]well[/bold]", "hurry [/up]", "empty it", "1 pass, 1 warn, 1 fail", "exit code 5"):
        assert words in text


# ---- with permission removed -----------------------------------------------------------------------------------------

# argv: uid to become, capabilities to lose, then what to run
_STRIP = """
import ctypes, os, resource, sys
uid, capabilities = int(sys.argv[1]), [int(c) for c in sys.argv[2].split(",")]
for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
    resource.setrlimit(limit, (0, 0))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
libc = ctypes.CDLL(None)
if os.geteuid() == 0:
    for c in capabilities:
        if libc.prctl(24, c, 0, 0, 0):  # PR_CAPBSET_DROP: gone at the next exec, even for root
            sys.exit("capabilities cannot be dropped here")
    if uid:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""
_DAC_OVERRIDE, _IPC_LOCK, _SYS_NICE = 1, 14, 23
_NOBODY = 65534

# argv: checks to run ("all", or a name), configuration, seconds, overrides
_DOCTOR = """
import json, sys
from pathlib import Path
from sync.config.config import load
from sync.ring.streams import SOCKETS
from tandem import doctor
which, file = sys.argv[1], Path(sys.argv[2])
doctor.CHECKS = [check for check in doctor.CHECKS if which in ("all", check.name)]
doctor._all_checks = doctor._all_checks if which == "all" else lambda: iter(doctor.CHECKS)
findings = list(doctor.examine(load(file, sys.argv[4:]), file, float(sys.argv[3])))
print(json.dumps(doctor.report(findings).data))
sys.exit(doctor.exit_code(findings))
"""


def _stripped(
    *arguments: str, uid: int = 0, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    lost = ",".join(map(str, (_SYS_NICE, _IPC_LOCK, _DAC_OVERRIDE)))
    command = [sys.executable, "-c", _STRIP, str(uid), lost, *arguments]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    run = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=300, check=False)
    if "cannot be dropped" in run.stderr:
        pytest.skip("this root may not drop its capabilities")
    return run


MEASURED = {"disk", "transport"}


def _check_permission_is_missed(run: subprocess.CompletedProcess[str]) -> None:
    told = json.loads(run.stdout)
    by_name = {f["name"]: f for f in told["findings"]}
    found = by_name["real-time permission"]
    assert found["verdict"] == "warn"
    assert "80" in found["reason"] and "not permitted" in found["reason"]
    assert "rtprio" in found["remedy"] and "/etc/security/limits.conf" in found["remedy"]
    assert by_name["locked memory"]["verdict"] == "warn"
    assert "memlock" in by_name["locked memory"]["remedy"]
    assert not by_name["timer"]["figures"]["real_time"]
    bad = {f["name"] for f in told["findings"] if f["verdict"] == "fail"}
    assert bad <= MEASURED, told  # what is measured while other tests run may well be too slow
    assert [f["name"] for f in told["findings"] if f["verdict"] != "pass" and not f["remedy"]] == []
    assert run.returncode == told["code"] == (5 if bad else 4), run.stderr


def test_removed_real_time_permission_is_said_with_its_exit_code(name: str, tmp_path: Path) -> None:
    run = _stripped("-c", _DOCTOR, "all", str(DRIVE), "1", f"name={name}", cwd=tmp_path)
    _check_permission_is_missed(run)


@pytest.fixture
def folder_of_nobody() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    path = Path(tempfile.mkdtemp(prefix="tandem-nobody-"))
    os.chown(path, _NOBODY, _NOBODY)
    yield path
    shutil.rmtree(path)


def test_an_ordinary_user_hears_what_to_ask_for(name: str, folder_of_nobody: Path) -> None:
    own = folder_of_nobody
    places = {"HOME": own, "TANDEM_CACHE": own / "cache", "XDG_RUNTIME_DIR": own / "run", "TMPDIR": own}
    environment = {key: str(place) for key, place in places.items()}
    first = _stripped("-c", "import numba, sync.errors", uid=_NOBODY, cwd=own, environment=environment)
    if first.returncode:
        pytest.skip(f"user {_NOBODY} cannot run this Python here: {first.stderr.strip().splitlines()[-1]}")
    run = _stripped(
        "-c", _DOCTOR, "all", str(DRIVE), "1", f"name={name}", uid=_NOBODY, cwd=own, environment=environment
    )
    _check_permission_is_missed(run)


def test_a_folder_that_cannot_be_written_fails(name: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir(mode=0o555)
    run = _stripped("-c", _DOCTOR, "disk", str(DRIVE), "1", f"name={name}", cwd=tmp_path)
    (found,) = json.loads(run.stdout)["findings"]
    assert found["verdict"] == "fail"
    assert str(tmp_path / "runs") in found["reason"] and os.strerror(errno.EACCES) in found["reason"]
    assert "chown" in found["remedy"]
    assert run.returncode == 5


# ---- in the way ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, verdict", [("tcp", "fail"), ("ipc", "warn")])
def test_a_busy_port_is_named(name: str, kind: str, verdict: str) -> None:
    port, other = free_port(), free_port()
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", port))
        busy.listen()
        settings = [f"transport.kind={kind}", f"transport.sim_port={port}", f"transport.daq_port={other}"]
        found = machine.ports(_case(load(DRIVE, [f"name={name}", *settings])))
        assert (found.verdict, found.figures["port"]) == (verdict, port)
        assert f":{port}" in found.reason and "sim_port" in found.remedy
    found = machine.ports(_case(load(DRIVE, [f"name={name}", *settings])))
    assert found.verdict == "pass"


def test_another_machines_address_is_not_a_busy_port(name: str) -> None:
    settings = ["transport.kind=tcp", "transport.keys=keys", "transport.sim_host=192.0.2.1"]  # RFC 5737
    found = machine.ports(_case(load(DRIVE, [f"name={name}", f"transport.daq_port={free_port()}", *settings])))
    assert found.verdict == "pass"
    assert "192.0.2.1" in found.reason


def test_leftovers_of_a_dead_run_are_named_and_left_alone(config: Config) -> None:
    ring = RingWriter(config.ring("daq"), config.daq.layout, 64)
    image = (SHM / config.ring("daq")).read_bytes()
    ring.close()
    dead = SHM / config.ring("daq")
    dead.write_bytes(image)  # a whole segment that nobody holds a lock on
    try:
        found = machine.other_runs(_case(config))
        assert found.verdict == "warn"
        assert config.ring("daq") in found.reason and "sweep" in found.remedy
        dead.write_bytes(b"not even a ring")
        assert machine.other_runs(_case(config)).verdict == "warn"
        assert dead.exists()
    finally:
        dead.unlink()


@pytest.mark.parametrize("other, role", [("", "sim"), ("_b", "daq")], ids=["the same name", "another name"])
def test_a_living_run_is_said(config: Config, name: str, other: str, role: str) -> None:
    living = load(DRIVE, [f"name={name}{other}"])
    ring = RingWriter(living.ring(role), living.daq.layout, 64)
    try:
        found = machine.other_runs(_case(config))
    finally:
        ring.close()
    assert found.verdict == "warn"
    assert living.name in found.reason and "going on" in found.reason and "disturbed" in found.reason


@pytest.mark.parametrize("socket", list(SOCKETS))
def test_a_socket_that_a_dead_run_left_is_named_and_swept(config: Config, socket: str) -> None:
    config.socket(socket).touch()
    found = machine.other_runs(_case(config))
    assert found.verdict == "warn" and str(config.socket(socket)) in found.reason
    assert sweep(config) == [str(config.socket(socket))]


# ---- devices ---------------------------------------------------------------------------------------------------------


class _Anything(DeviceSettings):
    model_config = ConfigDict(extra="allow")


def _driver(kind: str, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source of that kind whose `devices` does so; it is handed what the doctor asks with."""
    module = types.ModuleType(DEVICES[kind])
    module.__dict__.update(asked=[], DeviceError=DeviceError, Settings=_Anything, open_device=None)
    exec(f"def devices(*arguments):\n    asked.append(arguments)\n    {body}", module.__dict__)
    monkeypatch.setitem(sys.modules, DEVICES[kind], module)


def _wanting(kind: str, name: str, **settings: str) -> Case:
    return _case(load(DRIVE, [f"name={name}"]).model_copy(update={"source": {"kind": kind, **settings}}))


@pytest.mark.parametrize("kind", devices.KINDS)
def test_devices_that_are_there_are_listed(kind: str, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    _driver(kind, "return ['Dev1 (USB-6211)', 'Dev2']", monkeypatch)
    found = devices.find_devices(kind, _case(config))
    assert (found.verdict, found.reason) == ("pass", "Dev1 (USB-6211), Dev2")
    assert found.figures["devices"] == ["Dev1 (USB-6211)", "Dev2"]


@pytest.mark.parametrize("kind", devices.KINDS)
@pytest.mark.parametrize(
    "body, said",
    [
        ("raise DeviceError('its driver is missing: pip install it')", "its driver is missing: pip install it"),
        ("raise ModuleNotFoundError('no', name='somebody')", "somebody is not installed"),
        ("raise OSError('cannot open shared object')", "OSError: cannot open shared object"),
    ],
)
def test_what_a_device_lacks_matters_only_to_who_wants_it(
    kind: str, body: str, said: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _driver(kind, body, monkeypatch)
    unwanted, wanted = devices.find_devices(kind, _case(load(DRIVE))), devices.find_devices(kind, _wanting(kind, name))
    assert said in unwanted.reason and f"only needed for source.kind = '{kind}'" in unwanted.reason
    assert said in wanted.reason and wanted.remedy
    assert [exit_code([found]) for found in (unwanted, wanted)] == [0, 5]


def test_no_device_is_a_remark_and_a_warning_to_who_wants_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _driver("gamepad", "return []", monkeypatch)
    assert devices.find_devices("gamepad", _case(load(DRIVE))).verdict == "pass"
    found = devices.find_devices("gamepad", _wanting("gamepad", name))
    assert found.verdict == "warn" and found.remedy


@pytest.mark.parametrize(
    "settings, verdict",
    [
        ({"server": "192.0.2.7:31763"}, "warn"),
        ({"server": "192.0.2.7:31763", "server_ca": "ca.pem"}, "pass"),
        ({"server": "127.0.0.1:31763"}, "pass"),
        ({}, "pass"),
    ],
)
def test_a_server_of_devices_without_tls_is_said(
    settings: dict[str, str], verdict: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _driver("nidaqmx", "return ['Dev1']", monkeypatch)
    found = devices.find_devices("nidaqmx", _wanting("nidaqmx", name, **settings))
    assert found.verdict == verdict and ("without TLS" in found.reason) == (verdict == "warn")


@pytest.mark.parametrize(
    "settings, verdict",
    [
        ({"interface": "socketcan"}, "warn"),
        ({"interface": "pcan"}, "pass"),
        ({"replay": "x.log"}, "pass"),
        ({"interface": "socketcan", "replay": "x.log"}, "pass"),
    ],
)
def test_only_a_bus_that_could_be_seen_is_missed(
    settings: dict[str, str], verdict: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _driver("can", "return []", monkeypatch)
    assert devices.find_devices("can", _wanting("can", name, **settings)).verdict == verdict


@pytest.mark.parametrize(
    "settings, verdict",
    [
        ({"interface": "udp_multicast", "channel": "239.74.163.2"}, "warn"),
        ({"interface": "socketcand", "channel": "can0"}, "warn"),
        ({"interface": "slcan", "channel": "socket://192.0.2.7:3333"}, "warn"),
        ({"interface": "slcan", "channel": "/dev/ttyUSB0"}, "pass"),
        ({"interface": "socketcan", "channel": "can0"}, "pass"),
        ({"interface": "udp_multicast", "replay": "x.log"}, "pass"),
    ],
)
def test_a_bus_off_the_network_is_said(
    settings: dict[str, str], verdict: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _driver("can", "return ['socketcan can0']", monkeypatch)
    found = devices.find_devices("can", _wanting("can", name, **settings))
    assert found.verdict == verdict and ("without keys" in found.reason) == (verdict == "warn")


def test_a_source_that_is_not_part_of_this_tandem_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEVICES, "can", "daq_service.devices.no_such_source")
    assert devices.find_devices("can", _case(load(DRIVE))).verdict == "pass"
    found = devices.find_devices("can", _wanting("can", name))
    assert found.verdict == "fail" and "no such source" in found.reason
    module = types.ModuleType(DEVICES["can"])
    module.__dict__.update(Settings=_Anything, open_device=None)
    monkeypatch.setitem(sys.modules, DEVICES["can"], module)
    assert devices.find_devices("can", _wanting("can", name)).verdict == "pass"  # it is there, but lists nothing


def test_the_server_of_the_configuration_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _driver("nidaqmx", "return []", monkeypatch)
    devices.find_devices("nidaqmx", _wanting("nidaqmx", name, server="192.0.2.1:31763"))
    devices.find_devices("nidaqmx", _case(load(DRIVE)))
    assert sys.modules[DEVICES["nidaqmx"]].asked == [("192.0.2.1:31763",), ("",)]


# ---- what other machines would hear ----------------------------------------------------------------------------------

_WORSE = {
    "governor": ("scaling_governor", "powersave", "cpupower"),
    "clock_source": ("current_clocksource", "hpet", "clocksource"),
    "throttling": ("sched_rt_runtime_us", "100000", "sysctl"),
    "pages": ("transparent_hugepage", "[always] madvise never", "madvise"),
    "cores": ("cpu.max", "50000 100000", "--cpus"),
}


@pytest.mark.parametrize("check", _WORSE)
def test_a_worse_machine_is_warned(check: str, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    file, content, remedy = _WORSE[check]
    real = machine.text
    monkeypatch.setattr(machine, "text", lambda path: content if file in str(path) else real(path))
    found = getattr(machine, check)(_case(config))
    assert found.verdict == "warn"
    assert remedy in found.remedy


_CAPABLE = "CapEff:\t0000000000800000"
_CGROUP_V1 = {"/proc/self/status": _CAPABLE, "/proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/user.slice/job\n0::/"}
_CGROUP_V2 = {"/proc/self/status": _CAPABLE, "/proc/self/cgroup": "0::/user.slice/job"}
_BUILT_IN = {f"/boot/config-{os.uname().release}": "CONFIG_SMP=y\nCONFIG_RT_GROUP_SCHED=y"}
_REFUSING = {
    "group of cgroup v1": (
        _CGROUP_V1 | {"/sys/fs/cgroup/cpu,cpuacct/user.slice/job/cpu.rt_runtime_us": "0"},
        ("real-time group scheduling", "/user.slice/job"),
        "tee /sys/fs/cgroup/cpu,cpuacct/user.slice/job/cpu.rt_runtime_us",
    ),
    "cgroup v1 in a container": (
        _CGROUP_V1 | {"/sys/fs/cgroup/cpu/cpu.rt_runtime_us": "0"},
        ("real-time group scheduling",),
        "--cpu-rt-runtime=950000",
    ),
    "group of cgroup v2": (
        _CGROUP_V2 | _BUILT_IN,
        ("real-time group scheduling", "CONFIG_RT_GROUP_SCHED", "/user.slice/job"),
        "rt_group_sched=0",
    ),
    "no budget at all": (
        _CGROUP_V2 | {"/proc/sys/kernel/sched_rt_runtime_us": "0"},
        ("kernel.sched_rt_runtime_us = 0",),
        "sysctl kernel.sched_rt_runtime_us=950000",
    ),
    "a group with a budget": (
        _CGROUP_V1 | {"/sys/fs/cgroup/cpu,cpuacct/user.slice/job/cpu.rt_runtime_us": "950000"},
        ("something other than permissions or groups",),
        "seccomp",
    ),
    "a kernel told to leave it": (
        _CGROUP_V2 | _BUILT_IN | {"/proc/cmdline": "quiet rt_group_sched=0"},
        ("something other than permissions or groups",),
        "seccomp",
    ),
    "no right to it": (
        _CGROUP_V2 | _BUILT_IN | {"/proc/self/status": "CapEff:\t0000000000000000"},
        ("is not permitted to",),
        "/etc/security/limits.conf",
    ),
}


@pytest.mark.parametrize("machine_is", _REFUSING)
def test_a_refused_priority_names_what_refuses_it(
    machine_is: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, why, remedy = _REFUSING[machine_is]
    monkeypatch.setattr(machine.realtime, "permitted", lambda priority: False)
    monkeypatch.setattr(machine.group_scheduling, "text", lambda path: files.get(str(path), ""))
    monkeypatch.setattr(machine.resource, "getrlimit", lambda which: (0, 0))
    monkeypatch.setattr(Path, "read_bytes", lambda path: (_ for _ in ()).throw(FileNotFoundError(path)))
    found = machine.permission(_case(config))
    assert found.verdict == "warn" and all(words in found.reason for words in why)
    assert remedy in found.remedy


def test_one_core_is_a_warning_and_a_core_that_is_not_there_a_failure(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    found = machine.cores(_case(load(DRIVE, [f"name={name}"])))
    assert found.verdict == "warn"
    found = machine.cores(_case(load(DRIVE, [f"name={name}", "realtime.sim_core=7"])))
    assert found.verdict == "fail" and "core 7" in found.reason
    found = machine.cores(_case(load(DRIVE, [f"name={name}", "realtime.sim_core=7", "realtime.enabled=false"])))
    assert found.verdict == "warn"


@pytest.mark.parametrize(
    "share, misses, granted, verdict",
    [
        (0.049, 0, True, "pass"),
        (0.051, 0, True, "warn"),
        (0.01, 1, True, "warn"),
        (0.199, 0, True, "warn"),
        (0.201, 3, True, "fail"),
        (0.049, 0, False, "pass"),
        (0.9, 9, False, "warn"),
    ],
)
def test_timer_is_judged_by_its_share_of_the_step(
    share: float, misses: int, granted: bool, verdict: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 5000 * share
    measured = {"n": 2000, "mean": 1.0, "p50": 1.0, "p90": 2.0, "p99": 3.0, "p999": late, "max": late}
    monkeypatch.setattr(
        measure, "bare_lateness", lambda *_: {**measured, "deadline_misses": misses, "timer_slack_ns": 1}
    )
    monkeypatch.setattr(measure.realtime, "permitted", lambda _: granted)
    monkeypatch.setattr(measure, "stolen_ticks", lambda: (0, 0))
    found = measure.timer(_case(config))
    assert found.verdict == verdict
    assert bool(found.remedy) == (verdict != "pass")


@pytest.mark.parametrize(
    "p99, granted, verdict", [(900, True, "pass"), (1100, True, "warn"), (5100, True, "fail"), (5100, False, "warn")]
)
def test_transport_is_judged_by_the_block_period(
    p99: float, granted: bool, verdict: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Config] = []

    def measured(given: Config, seconds: float) -> dict[str, Any]:
        used.append(given)
        return {"n": 1000 * seconds, "p50": 50.0, "p99": p99}

    monkeypatch.setattr(measure, "bare_ipc", measured)
    monkeypatch.setattr(measure.realtime, "permitted", lambda _: granted)
    assert measure.transport(_case(config)).verdict == verdict
    # asked for a priority it may not have, libzmq would abort the doctor
    assert used[0].realtime.enabled == granted
    assert used[0].name != config.name


def test_messages_that_do_not_arrive_fail(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "bare_ipc", lambda *_: {"n": 0, "p50": 0.0, "p99": 0.0})
    assert measure.transport(_case(config)).verdict == "fail"


def test_shared_memory_too_small_fails(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(RingWriter):
        def __init__(self, name: str, *arguments: Any):
            if ".sim." in name:
                raise RingError("no space")
            super().__init__(name, *arguments)

    monkeypatch.setattr(measure, "RingWriter", Full)
    found = measure.ring(_case(config))
    assert (found.verdict, found.reason) == ("fail", "no space")
    assert "ring_blocks" in found.remedy
    assert _left(f"doctor_{os.getpid()}_") == []


def test_the_smallest_ring_is_no_torn_ring(name: str) -> None:
    """A writer at full speed laps sixteen slots again and again while one is read."""
    found = measure.ring(_case(load(DRIVE, [f"name={name}", "daq.ring_blocks=16", "sim.ring_blocks=16"])))
    assert (found.verdict, found.figures["torn"]) == ("pass", 0)


def test_a_ring_that_tears_fails(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_read_for", lambda *_: (100, 1000, 3))
    found = measure.ring(_case(config))
    assert found.verdict == "fail" and "3 of 100" in found.reason


def test_a_cache_that_cannot_be_written_fails(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.jit, "CACHE", Path("/proc/tandem/numba/0"))
    found = machine.cache(_case(config))
    assert found.verdict == "fail"
    assert "TANDEM_CACHE" in found.remedy


def test_a_wrong_vehicle_is_named(name: str) -> None:
    found = machine.configuration(_case(load(DRIVE, [f"name={name}", "sim.machine=vehicles/none.toml"])))
    assert found.verdict == "fail"
    assert "none.toml" in found.reason


def test_runs_are_recorded_in_the_nearest_folder_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert measure.recording_folder() == tmp_path
    (tmp_path / "runs").mkdir()
    assert measure.recording_folder() == tmp_path / "runs"


def test_a_package_without_rows_is_a_failed_row_and_keeps_no_other_from_being_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere_empty.py").write_text("")
    facts = tmp_path / "elsewhere-1.2.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text("[tandem.doctor]\nempty = elsewhere_empty\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    checks = {check.name: check for check in doctor._all_checks()}
    finding = checks["rows of empty"].run(doctor.Case(load(DRIVE), DRIVE, 1.0, ()))
    assert finding.verdict == "fail"
    assert "elsewhere 1.2" in finding.reason
    assert "ROWS" in finding.reason
    with pytest.raises(ConfigError, match=r"elsewhere 1\.2 .* has no ROWS"):
        doctor.all_rows()
