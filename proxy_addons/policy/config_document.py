"""A configuration back to a document: what `parse_config` reads to an equal one."""

from typing import Any

from .agents import Agent
from .config_ask import ask_values
from .config_forms import Json
from .config_schema import AGENT_TABLE, LIMITS, SETTINGS, TABLES, profile_value
from .config_search import search_values
from .config_values import Config
from .limits import Profile


def render_profile(profile: Profile) -> dict[str, Json]:
    """Every limit of a profile as a document has it."""
    values = ((key, profile_value(profile, key.name)) for key in LIMITS)
    return {key.name: key.form.dump(value) for key, value in values if value is not None}


def render_document(config: Config) -> dict[str, Json]:
    """The whole configuration in JSON's terms, defaults written out: `parse_config` reads it to an equal one."""
    values = {
        ("gateway", "listeners"): config.gateway.listeners,
        ("gateway", "workers"): config.gateway.workers,
        ("gateway", "default_profile"): config.gateway.default_profile,
        ("dns", "nameservers"): config.dns.nameservers,
        ("tls", "extra_ca"): config.tls.extra_ca,
        ("tls", "ca_certificate"): config.tls.ca_certificate,
        ("tls", "ca_key"): config.tls.ca_key,
        ("tls", "listener_certificate"): config.tls.listener_certificate,
        ("tls", "listener_key"): config.tls.listener_key,
        ("daemon", "listen"): config.daemon.endpoint,
        ("daemon", "profile"): config.daemon.profile,
        ("daemon", "anonymous"): config.daemon.listener.anonymous,
        ("daemon", "tls"): config.daemon.listener.tls,
        ("daemon", "names"): config.daemon.names,
        ("operator", "listen"): config.operator.endpoint,
        ("operator", "tls"): config.operator.tls,
        ("operator", "names"): config.operator.names,
        ("operator", "token_sha256"): config.operator.token_sha256,
        ("operator", "metrics_token_sha256"): config.operator.metrics_token_sha256,
        ("audit", "stdout"): config.audit.stdout,
        ("audit", "keep_days"): config.audit.keep_days,
        ("audit", "keep_bytes"): config.audit.keep_bytes,
        ("metrics", "otlp_endpoint"): config.metrics.otlp_endpoint,
        ("metrics", "otlp_seconds"): config.metrics.otlp_seconds,
        ("page_read", "max_bytes"): config.read_max_bytes,
        ("store", "max_bytes"): config.store_max_bytes,
        **search_values(config.search),
        **ask_values(config.asking),
    }
    document: dict[str, dict[str, Json]] = {}
    for key in SETTINGS:
        if (key.table, key.name) not in values:
            continue
        outer, _, inner = key.table.partition(".")
        table: dict[str, Any] = document.setdefault(outer, {})
        if inner:
            table = table.setdefault(inner, {})
        value = values[key.table, key.name]
        if value is not None:
            table[key.name] = key.form.dump(value)
    return {
        **document,
        "agents": {name: _render_agent(one) for name, one in config.agents.items()},
        "profiles": {name: render_profile(one) for name, one in config.profiles.items()},
    }


def _render_agent(agent: Agent) -> dict[str, Json]:
    values = {"profile": agent.profile, "token_sha256": agent.token_sha256, "sources": agent.sources}
    keys = TABLES[AGENT_TABLE]
    return {name: keys[name].form.dump(value) for name, value in values.items() if value is not None}
