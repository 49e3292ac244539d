"""What is there before the first worker of a gateway: authority, keys, shared files, and the ports it listens on."""

import errno
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from socket import socket

import certifi

from certs.authority import Authority, load_or_create_authority
from certs.errors import CertificateAuthorityError
from certs.own import OwnFiles
from proxy_addons.audit.errors import AuditError
from proxy_addons.audit.keys import AuditKeys
from proxy_addons.budget_files import DAYS_FILE, create_scratch_file, prepare_days_file
from proxy_addons.budgets import BudgetLedgerError
from proxy_addons.chains import LedgerError, create_ledger_file
from proxy_addons.gateway_spec import GatewaySpec, SupervisorError
from proxy_addons.listening import bind_listening_socket
from proxy_addons.policy.config import Config
from proxy_addons.policy.config_addresses import Endpoint
from proxy_addons.worker_spec import WorkerSpec, count_workers

PRIVATE_SERIES = tuple(f"private-{number}" for number in range(64))
"""Audit chains of private gateways: each takes the first that no other process holds."""


def prepare(spec: GatewaySpec, stack: ExitStack) -> tuple[Authority, list[WorkerSpec]]:
    """The authority, and what each worker is told; what has to be held meanwhile is put on `stack`.

    Raises SupervisorError.
    """
    config = spec.config
    keys_dir = spec.state_dir / "keys"
    try:
        spec.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # a private gateway took no lock
        authority = load_or_create_authority(keys_dir, spec.state_dir / "ca.pem", _own_files(config))
        AuditKeys.load_or_create(keys_dir)
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fetchd-")))
        ledger = scratch / "chains.db"
        create_ledger_file(ledger)
        budgets = scratch / "budgets.db"
        create_scratch_file(budgets)
        prepare_days_file(spec.state_dir / DAYS_FILE)
        roots = _write_roots(scratch, config.tls.extra_ca)
    except (CertificateAuthorityError, AuditError, LedgerError, BudgetLedgerError) as error:
        raise SupervisorError(str(error)) from error
    except OSError as error:
        raise state_error(spec.state_dir, error) from error
    listeners = tuple(_reserve(one.host, one.port, one.profile, stack) for one in config.gateway.listeners)
    own = (*spec.own, *((host, port) for host, port, _ in listeners))
    own += tuple(
        (end.host, end.port) for end in (config.daemon.endpoint, config.operator.endpoint) if end.port
    )
    worker = WorkerSpec(
        config, spec.state_dir, (), ledger, budgets, roots, spec.secret, listeners,
        tuple(dict.fromkeys(own)), authority.signing_pem.decode("ascii"),
    )  # fmt: skip
    if spec.private:
        return authority, [replace(worker, series=PRIVATE_SERIES)]
    count = count_workers(config)
    return authority, [replace(worker, series=(f"gateway-{index}",)) for index in range(count)]


def _own_files(config: Config) -> OwnFiles | None:
    certificate, key = config.tls.ca_certificate, config.tls.ca_key
    return OwnFiles(Path(certificate), Path(key)) if certificate is not None and key is not None else None


def _write_roots(scratch: Path, extra: tuple[str, ...]) -> Path | None:
    """The usual roots and the configured ones in one file, as OpenSSL takes one."""
    if not extra:
        return None
    roots = scratch / "roots.pem"
    try:
        parts = [
            Path(certifi.where()).read_text("ascii"),
            *(Path(one).read_text("utf-8") for one in extra),
        ]
    except (OSError, UnicodeDecodeError) as error:
        raise SupervisorError(f"tls.extra_ca: {error}") from error
    roots.write_text("\n".join(parts), "utf-8")
    return roots


def _reserve(host: str, port: int, profile: str, stack: ExitStack) -> tuple[str, int, str]:
    """Find out that nobody listens there, then hold the port for the workers, who bind it beside us."""
    try:
        bind_listening_socket(host, port, shared=False).close()
        held: socket = stack.enter_context(bind_listening_socket(host, port, shared=True))
    except OSError as error:
        shown = str(Endpoint(host, port))
        reason = "in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise SupervisorError(f"address {shown}: {reason}", in_use=shown) from error
    return host, held.getsockname()[1], profile


def state_error(state_dir: Path, error: OSError) -> SupervisorError:
    """A state directory that cannot be used."""
    return SupervisorError(f"state directory {state_dir}: {error.strerror or error}")
