"""How ROS 2 speaks over Zenoh, as rmw_zenoh documents it: keys of topics, liveliness tokens, attachments.

    <domain>/<topic>/<type>/<type hash>
    @ros2_lv/<domain>/<session>/<node>/<number>/<kind>/<enclave>/<namespace>/<name>[/<topic>/<type>/<hash>/<qos>]

The first is a topic's messages in CDR, the second a token of a node (NN), publisher (MP) or subscription (MS). A slash
within a part of a token is a `%`. With every message come its number, the time in UTC and 16 bytes that name
its publisher. (rmw_zenoh computes these bytes from the token by XXH3, we by SHA-256: they are compared for equality
only.) Quality of service is stated where it differs from rmw_zenoh's default: reliable, volatile, the last 42.

Closed by default: no multicast, no gossip, no listening; a session is a client of routers or peers that are named.
Beyond the loopback these must be `tls/` endpoints, with certificates on both sides.
"""

import hashlib
import ipaddress
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sync.config.extras import install_extra
from sync.errors import ConfigError, TandemError

ROUTER = "tcp/127.0.0.1:7447"
MOST_BYTES = 1 << 16  # of a message that is accepted
_LARGEST = 1 << 22  # of a message that Zenoh reassembles
_ENDPOINT = re.compile(r"(tcp|tls)/(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]{1,253}):(\d{1,5})")
_NAME = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
_DEPTH = 10
_QOS = f"::,{_DEPTH}:,:,:,,"
_CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")


class Ros2Error(TandemError):
    """There is no session of Zenoh."""


def load_zenoh() -> Any:
    try:
        import zenoh
    except ImportError:
        raise Ros2Error(f"ROS 2 needs eclipse-zenoh: {install_extra('ros2')}") from None
    return zenoh


# ---- names -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Topic:
    """A topic and its type: both ends must have the same name, kind and hash."""

    name: str  # with its slash: /joint_states
    kind: str  # sensor_msgs/msg/JointState
    hash: str  # RIHS01_…

    @property
    def type(self) -> str:
        """The type's name on the wire."""
        package, _, name = self.kind.partition("/msg/")
        return f"{package}::msg::dds_::{name}_"

    def key(self, domain: int) -> str:
        return f"{domain}/{self.name.strip('/')}/{self.type}/{self.hash}"


def check_name(name: str, where: str) -> str:
    """A topic's name, absolute; raises ConfigError."""
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise ConfigError(f"{where} = {name!r}: must be a name of ROS 2 such as /cmd_vel: letters, digits, _ and /")
    return "/" + name.strip("/")


def _part(text: str) -> str:
    return text.replace("/", "%") or "%"


def token(domain: int, session: str, number: int, kind: str, node: str, namespace: str, topic: Topic | None) -> str:
    """`kind`: NN, MP or MS; `number`: of the entity in its session, the node's is 0."""
    parts = ["@ros2_lv", str(domain), session, "0", str(number), kind, "%", _part(namespace), node]
    if topic is not None:
        parts += [_part(topic.name), topic.type, topic.hash, _QOS]
    return "/".join(parts)


# ---- attachments -----------------------------------------------------------------------------------------------------

GID_BYTES = 16
_ATTACHED = struct.Struct(f"<qqB{GID_BYTES}s")


def gid_of(token_: str) -> bytes:
    return hashlib.sha256(token_.encode()).digest()[:GID_BYTES]


def attachment(number: int, at_ns: int, gid: bytes) -> bytes:
    """`at_ns`: UTC."""
    return _ATTACHED.pack(number, at_ns, GID_BYTES, gid)


def attached(data: bytes) -> tuple[int, int, bytes]:
    """Number, time and publisher of a message; raises ValueError where these are malformed."""
    if len(data) != _ATTACHED.size or data[16] != GID_BYTES:
        raise ValueError(f"an attachment of {len(data)} bytes, expected {_ATTACHED.size}")
    number, at_ns, _, gid = _ATTACHED.unpack(data)
    return number, at_ns, gid


# ---- sessions --------------------------------------------------------------------------------------------------------


def check_endpoint(endpoint: str, where: str, certificates: Path | None) -> None:
    """Raises ConfigError for an invalid endpoint, or one beyond the loopback without TLS."""
    match = _ENDPOINT.fullmatch(endpoint)
    if match is None:
        raise ConfigError(f"{where} = {endpoint!r}: must be tcp/HOST:PORT or tls/HOST:PORT, such as {ROUTER}")
    kind, host, _ = match.groups()
    if kind == "tls":
        if certificates is None:
            raise ConfigError(f"{where} = {endpoint!r}: needs a folder with {', '.join(_CERTIFICATES)} (--tls)")
        return
    try:
        near = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        near = False
    if not near:
        raise ConfigError(
            f"{where} = {endpoint!r}: is not this machine alone: it needs tls/ and certificates on both sides"
        )


def settings(
    connect: Sequence[str], certificates: Path | None, mode: str = "client", listen: Sequence[str] = ()
) -> dict[str, Any]:
    """Zenoh's configuration, by its keys."""
    found: dict[str, Any] = {
        "mode": mode, "connect/endpoints": list(connect), "listen/endpoints": list(listen),
        "scouting/multicast/enabled": False, "scouting/gossip/enabled": False,
        "transport/link/rx/max_message_size": _LARGEST,
        # opening a session fails at once without a router; an open session finds its router again by itself
        "connect/timeout_ms": 0, "connect/exit_on_failure": True,
    }  # fmt: skip
    if certificates is not None:
        authority, own, key = (certificates / name for name in _CERTIFICATES)
        for file in (authority, own, key):
            if not file.is_file():
                raise ConfigError(f"{file}: is missing; TLS needs {', '.join(_CERTIFICATES)} there")
        if key.stat().st_mode & 0o077:
            raise ConfigError(f"{key}: others may read it; chmod 600 {key}")
        tls = "transport/link/tls"
        found |= {
            f"{tls}/root_ca_certificate": str(authority), f"{tls}/enable_mtls": True,
            f"{tls}/connect_certificate": str(own), f"{tls}/connect_private_key": str(key),
            f"{tls}/listen_certificate": str(own), f"{tls}/listen_private_key": str(key),
            f"{tls}/verify_name_on_connect": True,
        }  # fmt: skip
    return found


def open_session(chosen: dict[str, Any]) -> Any:
    """Raises Ros2Error if no router or peer answers."""
    zenoh = load_zenoh()
    zenoh.init_log_from_env_or("off")
    config = zenoh.Config()
    for key, value in chosen.items():
        config.insert_json5(key, json.dumps(value))
    try:
        return zenoh.open(config)
    except zenoh.ZError as error:
        where = ", ".join(chosen["connect/endpoints"]) or ", ".join(chosen["listen/endpoints"])
        text = " ".join(str(error).split())[:200]
        raise Ros2Error(f"{where}: no Zenoh router or peer answers there ({text})") from None
