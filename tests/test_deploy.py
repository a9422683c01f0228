"""What is shipped for unattended machines gives the program no more than it needs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
UNIT = (ROOT / "deploy" / "tandem.service").read_text()
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text()
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()


@pytest.mark.parametrize(
    "setting",
    ["OOMPolicy=continue", "SystemCallFilter=@system-service", "RestrictNamespaces=true", "ProtectProc=invisible",
     "NoNewPrivileges=true", "ProtectSystem=strict", "ProtectHome=true", "PrivateTmp=true", "RestrictSUIDSGID=true",
     "LockPersonality=true", "User=tandem", "UMask=0077", "MemoryMax=4G"],
)  # fmt: skip
def test_the_unit_is_hardened(setting: str) -> None:
    assert setting in UNIT.splitlines()


def test_the_unit_has_two_capabilities_and_no_more() -> None:
    (bounding,) = re.findall(r"(?m)^CapabilityBoundingSet=(.*)$", UNIT)
    assert bounding.split() == ["CAP_SYS_NICE", "CAP_IPC_LOCK"]


def test_the_unit_opens_no_device_that_its_owner_has_not_named() -> None:
    """DeviceAllow= only opens; each line of the drop-in is a proposal, and none opens all input devices."""
    assert "DevicePolicy=closed" in UNIT.splitlines() and not re.search(
        r"(?m)^(DeviceAllow|SupplementaryGroups)=", UNIT
    )
    lines = (ROOT / "deploy" / "devices.conf").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == ["[Service]"]
    proposed = re.findall(r"(?m)^#DeviceAllow=(\S+)", "\n".join(lines))
    assert len(proposed) == 4 and not any(
        re.search(r"^/dev/.*[*?]|char-input|^/dev/input/?$", each) for each in proposed
    )


def test_the_base_of_the_image_can_be_pinned_by_digest() -> None:
    (default,) = re.findall(r"(?m)^ARG BASE=(\S+)\nFROM \$\{BASE\}$", DOCKERFILE)  # a digest is part of a name there
    builds = {str(service["build"]) for service in yaml.safe_load(COMPOSE)["services"].values()}
    assert all(f"${{BASE:-{default}}}" in build for build in builds)
    told = (ROOT / "docs" / "security.md").read_text()
    assert "--build-arg BASE=python@sha256:" in told and "RepoDigests" in told


def test_containers_have_no_capabilities_and_get_none() -> None:
    assert "  cap_drop: [ALL]\n" in COMPOSE and '  security_opt: ["no-new-privileges:true"]\n' in COMPOSE
    assert not re.search(r"cap_add|privileged|pid: *host|network_mode: *host|docker\.sock", COMPOSE)


def test_every_service_of_the_compose_file_has_these_settings() -> None:
    services = COMPOSE.split("\nservices:\n")[1].split("\nvolumes:\n")[0]
    names = re.findall(r"(?m)^  (\w+):$", services)
    assert names and services.count("    <<: *service\n") == len(names)


def test_the_compose_file_is_yaml_whose_services_run_commands_of_ours() -> None:
    from tandem.commands.cli import app

    services = yaml.safe_load(COMPOSE)["services"]
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert len(services) == 4 and {service["command"][0] for service in services.values()} <= known
    assert all(service["cap_drop"] == ["ALL"] for service in services.values())


def test_the_image_compiles_what_its_default_run_needs_and_takes_another_base() -> None:
    assert re.search(r"(?m)^ARG BASE=\S+\nFROM \$\{BASE\}$", DOCKERFILE)
    (code,) = re.findall(r'(?m)^RUN python -c "(.*)"$', DOCKERFILE)
    assert "configs/drive.toml" in code and 'CMD ["drive"]' in DOCKERFILE
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)


def test_the_image_needs_nothing_from_a_package_mirror_but_what_pip_is_told() -> None:
    """So that it is built where no registry can be reached (verify/tree/image.py does it)."""
    assert not re.search(r"apt-get|curl|wget|https?://", DOCKERFILE)
    arguments = re.findall(r"(?m)^ARG (PIP_\w+)$", DOCKERFILE)  # one a line: buildah takes no more
    assert {"PIP_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS"} <= set(arguments)
    assert "ENV PIP" not in DOCKERFILE
    copied = re.findall(r"(?m)^COPY (\w+) \1$", DOCKERFILE)
    assert {"tandem", "daq_service", "sim_service", "sync", "configs"} == set(copied)


def test_nothing_in_the_container_runs_as_root() -> None:
    instructions = [line for line in DOCKERFILE.splitlines() if re.match(r"(USER|ENTRYPOINT|CMD|RUN)\b", line)]
    (user,) = [line for line in instructions if line.startswith("USER")]
    assert user == "USER tandem"
    assert instructions.index(user) < next(k for k, line in enumerate(instructions) if line.startswith("ENTRYPOINT"))
