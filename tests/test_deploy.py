"""What is shipped for unattended machines gives the program no more than it needs."""

import re
from pathlib import Path

import pytest

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


def test_containers_have_no_capabilities_and_get_none() -> None:
    assert "  cap_drop: [ALL]\n" in COMPOSE and '  security_opt: ["no-new-privileges:true"]\n' in COMPOSE
    assert not re.search(r"cap_add|privileged|pid: *host|network_mode: *host|docker\.sock", COMPOSE)


def test_every_service_of_the_compose_file_has_these_settings() -> None:
    services = COMPOSE.split("\nservices:\n")[1].split("\nvolumes:\n")[0]
    names = re.findall(r"(?m)^  (\w+):$", services)
    assert names and services.count("    <<: *service\n") == len(names)


def test_nothing_in_the_container_runs_as_root() -> None:
    instructions = [line for line in DOCKERFILE.splitlines() if re.match(r"(USER|ENTRYPOINT|CMD|RUN)\b", line)]
    (user,) = [line for line in instructions if line.startswith("USER")]
    assert user == "USER tandem"
    assert instructions.index(user) < next(k for k, line in enumerate(instructions) if line.startswith("ENTRYPOINT"))
