"""A Dask cluster. Whoever reaches its scheduler or a worker runs code there as the user who started it.

So it is reached by TLS: scheduler, workers and this client each present a certificate and demand one (distributed's
own `Security`). Without certificates a cluster is taken on the loopback alone, and with a warning. docs/ensembles.md
shows how a certificate is made and a cluster started.
"""

import ipaddress
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sync.errors import ConfigError, TandemError
from tandem.ensembles.extras import needs

Warn = Callable[[str], None]
_OTHERS = 0o077


def who_can_use(address: str, certificate: str = "") -> str:
    """A warning for the user of the cluster at this address; "" where it has certificates.

    Raises ConfigError for an address that is neither tls:// nor of the loopback.
    """
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or port is None or parts.scheme not in ("tls", "tcp"):
        raise ConfigError(f"--cluster {address}: must be the address of a Dask scheduler, such as tls://192.0.2.7:8786")
    if parts.scheme == "tls":
        return ""
    if not _on_loopback(host):
        raise ConfigError(
            f"--cluster {address}: without TLS everyone who reaches that port runs code on the cluster; start it with"
            f" certificates (docs/ensembles.md) and give tls://{host}:{port}; tcp:// is for the loopback alone"
        )
    if certificate:
        raise ConfigError(f"--certificate {certificate}: is used by tls:// alone, and --cluster is {address}")
    return (
        f"--cluster {address}: this cluster has no certificates: every user of this machine can run code on it, as the"
        " user who started it; docs/ensembles.md shows one with certificates"
    )


def _on_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def connected(address: str, certificate: str, warn: Warn) -> Iterator[Any]:
    """A client of the cluster, which has workers."""
    if warning := who_can_use(address, certificate):
        warn(warning)
    distributed = needs("distributed", "cluster", f"--cluster {address}")
    try:
        security = _security(distributed, address, certificate)
        client = distributed.Client(address, timeout="10s", security=security)
    except distributed.comm.core.FatalCommClosedError:
        raise TandemError(
            f"--cluster {address}: the certificate {certificate or 'of Dask’s configuration'} does not fit the"
            " scheduler's: client, scheduler and workers need the same one, or ones of the same authority"
        ) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise TandemError(
            f"--cluster {address}: no scheduler answers there: {error}; start one with `dask scheduler`, and workers"
            " with `dask worker ADDRESS`, as docs/ensembles.md shows"
        ) from None
    try:
        if not client.nthreads():
            raise TandemError(f"--cluster {address}: the scheduler has no workers; start some: dask worker {address}")
        yield client
    finally:
        client.close()


def _security(distributed: Any, address: str, certificate: str) -> Any:
    """One file is authority, certificate and key in one; without it, what Dask's own configuration has."""
    if not certificate:
        security = distributed.Security(require_encryption=address.startswith("tls://") or None)
        try:
            there = security.get_connection_args("client")["ssl_context"] is not None
        except OSError as error:
            raise ConfigError(f"distributed.comm.tls of Dask's configuration: cannot be used: {error}") from None
        if address.startswith("tls://") and not there:
            raise ConfigError(
                f"--cluster {address}: with which certificate? Give --certificate FILE (docs/ensembles.md shows how it"
                " is made), or ca-file and client.cert under distributed.comm.tls in Dask's configuration"
            )
        return security
    _refuse_readable(Path(certificate))
    security = distributed.Security(
        require_encryption=True, tls_ca_file=certificate, tls_client_cert=certificate, tls_client_key=certificate
    )
    try:
        security.get_connection_args("client")
    except OSError as error:
        raise ConfigError(
            f"--certificate {certificate}: must hold a certificate and its key in PEM, as docs/ensembles.md makes it:"
            f" {error.strerror or error}"
        ) from None
    return security


def _refuse_readable(file: Path) -> None:
    """Raises an error if other users can read it: with its key one runs code on every host of the cluster."""
    try:
        found = file.stat()
    except OSError as error:
        raise ConfigError(f"--certificate {file}: {error.strerror}; docs/ensembles.md shows how it is made") from None
    if found.st_mode & _OTHERS or found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(
            f"--certificate {file}: others can read or change it, and its key runs code on the cluster; make another,"
            f" or at least: chmod 600 {file}"
        )
