"""The composition root of one worker: options, lean master, addons in one literal order, loop, listeners.

A worker is a process of its own. It is told everything in one JSON line on standard input (`WorkerSpec`), says
`ready` on standard output when it accepts clients, and stops when standard input ends: a worker never outlives the
one who started it. Each further line is a whole configuration whose rules replace those in force, answered by
`reloaded`; a worker that cannot take one says nothing and ends.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from mitmproxy import master, options
from mitmproxy.addons import core, proxyserver

from proxy_addons.addons.admission import Admission
from proxy_addons.addons.anonymity import Anonymity
from proxy_addons.addons.audit import Audit
from proxy_addons.addons.budgets import BudgetBytes, Budgets
from proxy_addons.addons.byte_cap import ByteCap
from proxy_addons.addons.chains import Chains
from proxy_addons.addons.client_places import ClientPlaces
from proxy_addons.addons.connecting import Connecting
from proxy_addons.addons.deadlines import Deadlines
from proxy_addons.addons.decoder_slots import make_slots
from proxy_addons.addons.identity import Identity
from proxy_addons.addons.integrity import Integrity
from proxy_addons.addons.kept_bodies import KeptBodies
from proxy_addons.addons.request_body import RequestBody
from proxy_addons.addons.verdict_response import VerdictResponse
from proxy_addons.addons.web_tools import WebTools
from proxy_addons.audit.errors import AuditUnavailableError
from proxy_addons.audit.keys import AuditKeys
from proxy_addons.audit.retention import make_retention
from proxy_addons.audit.sink import AuditSink
from proxy_addons.audit.writer import AuditLog
from proxy_addons.budget_files import DAYS_FILE, SqliteBudgetLedger
from proxy_addons.chains import SqliteLedger
from proxy_addons.dial import Dialer
from proxy_addons.engine import overrides
from proxy_addons.engine.dispatcher import Dispatcher
from proxy_addons.engine.environment import drop_key_log
from proxy_addons.engine.faults import log_to_stderr
from proxy_addons.engine.hops import Entry, Sessions
from proxy_addons.engine.listener import Listener
from proxy_addons.engine.loop import EgressLoop
from proxy_addons.engine.next_layer import NextLayer
from proxy_addons.engine.places import Places, count_places, raise_descriptor_limit
from proxy_addons.engine.revoking import end_revoked
from proxy_addons.engine.tls import GateTls
from proxy_addons.line_input import LineInput
from proxy_addons.listening import bind_listening_socket
from proxy_addons.meters import Meters
from proxy_addons.orders import Orders
from proxy_addons.own_addresses import Listener as OwnListener
from proxy_addons.own_addresses import OwnAddresses
from proxy_addons.policy import metrics
from proxy_addons.policy.config import Config
from proxy_addons.policy.limits import IDLE_SECONDS, MAX_SECONDS
from proxy_addons.policy.rulebook import CurrentRules, Rulebook
from proxy_addons.resolve.dns_client import DnsClient
from proxy_addons.resolve.nameservers import find_nameservers
from proxy_addons.worker_spec import WorkerSpec, count_workers, parse_worker_spec

logger = logging.getLogger(__name__)


def make_options(spec: WorkerSpec) -> options.Options:
    """mitmproxy's options, side doors closed."""
    return options.Options(
        confdir=str(spec.state_dir / "keys"),
        ssl_verify_upstream_trusted_ca=str(spec.roots) if spec.roots is not None else None,
        http2=True,
        websocket=True,
        rawtcp=False,
        server=False,
        upstream_cert=False,
        add_upstream_certs_to_client_chain=False,
    )


class Gateway:
    """One worker's parts, wired. `run` serves until `stop`."""

    def __init__(self, spec: WorkerSpec, sink: AuditSink) -> None:
        """`spec.series` is the one that the worker owns."""
        overrides.install_overrides()
        self.on_rules: Callable[[Config], None] = lambda config: None
        """Told of each configuration that was put in force."""
        config = spec.config
        self._ports = [port for _, port, _ in spec.listeners]
        self.rules = CurrentRules(Rulebook(config, self._ports))
        self.sessions = Sessions()
        places = Places(count_places)
        self.meters = meters = Meters()
        self._audit = audit = Audit(sink, meters)
        self.master = master.Master(make_options(spec))
        self.master.options.changed.disconnect(self.master.addons._configure_all)
        self.master.addons = Dispatcher(self.master, self.sessions, audit)
        self._ledger = SqliteLedger(spec.ledger)
        self._counts = SqliteBudgetLedger(spec.budgets, spec.state_dir / DAYS_FILE, spec.series[0])
        self._budgets = Budgets(self._counts, meters)
        own = OwnAddresses(OwnListener(host, port) for host, port in spec.own)
        # Each look-up ends with its profile's own limit; profiles come and go with the rules.
        dialer = Dialer(DnsClient(find_nameservers(config.dns.nameservers), limit=MAX_SECONDS), own)
        slots = make_slots(count_workers(config), spec.budgets.with_name("decoder-windows"))
        self.master.addons.add(
            core.Core(),
            proxyserver.Proxyserver(),
            NextLayer(self.sessions),
            Deadlines(self.sessions),
            Identity(self.rules, spec.secret),
            ClientPlaces(self.rules, places),
            Admission(),
            Integrity(),
            self._budgets,
            Chains(self._ledger),
            WebTools(self.rules, KeptBodies()),
            RequestBody(),
            Anonymity(),
            ByteCap(slots),
            BudgetBytes(),
            VerdictResponse(),
            Connecting(dialer, self.sessions, audit, meters),
            audit,
            GateTls(spec.authority, config.tls.listener_certificate, config.tls.listener_key),
        )
        self.master.options.update(
            connection_strategy="lazy", tcp_timeout=int(IDLE_SECONDS), validate_inbound_headers=True
        )
        overrides.check_options(self.master.options)
        self._listeners = [
            Listener(
                bind_listening_socket(host, port, shared=True),
                Entry(host, port, self.rules, index, config.gateway.listeners[index].tls),
                self.master,
                self.sessions,
                audit,
                places,
                meters,
            )
            for index, (host, port, _) in enumerate(spec.listeners)
        ]
        watch = meters.tallies.watch
        watch(metrics.HOPS_OPEN, lambda: audit.open_hops)
        watch(metrics.CLIENTS_OPEN, lambda: len(places))
        watch(metrics.CLIENT_PLACES, count_places)
        watch(metrics.CLIENTS_ACCEPTED, lambda: places.taken)
        watch(metrics.DECODER_WINDOWS, lambda: slots.held)
        watch(metrics.DECODER_WAITING, lambda: slots.waiting)
        meters.watch_process(spec.series[0])

    async def run(self) -> None:
        """Accept clients until `stop`; returns when the master has shut down."""
        for listener in self._listeners:
            await listener.start()
        print("ready", flush=True)  # noqa: T201 (the protocol with the supervisor)
        try:
            await self.master.run()
        finally:
            for listener in self._listeners:
                listener.stop()
            for session in self.sessions.all():
                session.control.abort("shutting down")
            self._budgets.settle()
            self._counts.close()
            self._ledger.close()

    def replace_rules(self, rulebook: Rulebook) -> None:
        """From here on every request is judged by `rulebook`. What is under way goes on, where its agent does."""
        with suppress(AuditUnavailableError):  # then nothing is let through in any case
            self._audit.event(None, "reload", "the rules were replaced")
        before, self.rules.now = self.rules.now, rulebook
        end_revoked(self.sessions.all(), before, rulebook)
        self.on_rules(rulebook.config)

    def prepare_rules(self, config: Config) -> Rulebook:
        """The rules of a configuration with the same listeners. Takes time: not for the event loop."""
        return Rulebook(config, self._ports)

    def stop(self) -> None:
        """Shut down; safe to call more than once."""
        self.master.shutdown()


async def serve(spec: WorkerSpec, told: LineInput) -> None:
    """Run one worker until it is told to stop. `told`: what comes after the spec."""
    keys = AuditKeys.load_or_create(spec.state_dir / "keys")
    log = AuditLog.open_first(spec.state_dir / "audit", spec.series, keys)
    log.retain(make_retention(spec.config.audit))
    keeper = asyncio.create_task(log.run(), name="audit")
    try:
        gateway = Gateway(replace(spec, series=(log.series,)), log)
        gateway.on_rules = lambda config: log.retain(make_retention(config.audit))
        gc.freeze()  # what is there now stays: collections need not look at it again and again
        # The young are looked at half as often, all others as often as before: what garbage holds stays small.
        gc.set_threshold(4_000, 5, 10)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, gateway.stop)
        orders = Orders(gateway, lambda: gateway.meters.report(log.health, log.series))
        told.watch(loop, orders.take, gateway.stop)
        await gateway.run()
    finally:
        keeper.cancel()
        await asyncio.wait([keeper])
        log.close()


def main() -> None:
    """Entry of the worker process."""
    drop_key_log()
    told = LineInput(sys.stdin.fileno())
    spec = parse_worker_spec(told.read_first())
    log_to_stderr()
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=EgressLoop) as runner:
        runner.run(serve(spec, told))
