"""What the usual clients read from their environment to use a proxy and to trust its CA: one table.

Sources: each client's own documentation of the variable named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Holds(Enum):
    """What a variable holds."""

    PROXY = "the proxy's URL"
    AUTHORITY = "the path of the CA file, PEM"
    LOOPBACK = "names that are reached without the proxy"
    SWITCH = "1"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable and who reads it."""

    name: str
    holds: Holds
    readers: str


VARIABLES: tuple[Variable, ...] = (
    Variable("HTTPS_PROXY", Holds.PROXY, "most clients"),
    Variable("https_proxy", Holds.PROXY, "curl, git, wget"),
    Variable("HTTP_PROXY", Holds.PROXY, "most clients"),
    Variable("http_proxy", Holds.PROXY, "curl (it reads no HTTP_PROXY), wget, apt"),
    Variable("NO_PROXY", Holds.LOOPBACK, "most clients"),
    Variable("no_proxy", Holds.LOOPBACK, "curl, git, wget"),
    Variable(
        "NODE_USE_ENV_PROXY", Holds.SWITCH, "node 22.21 and newer: its fetch reads no proxy variable else"
    ),
    Variable("SSL_CERT_FILE", Holds.AUTHORITY, "OpenSSL, Python, httpx, uv, Go, Rust's native-tls"),
    Variable("REQUESTS_CA_BUNDLE", Holds.AUTHORITY, "Python requests"),
    Variable("CURL_CA_BUNDLE", Holds.AUTHORITY, "curl"),
    Variable("GIT_SSL_CAINFO", Holds.AUTHORITY, "git"),
    Variable("PIP_CERT", Holds.AUTHORITY, "pip"),
    Variable("NODE_EXTRA_CA_CERTS", Holds.AUTHORITY, "node, npm"),
    Variable("NPM_CONFIG_CAFILE", Holds.AUTHORITY, "npm"),
    Variable("DENO_CERT", Holds.AUTHORITY, "Deno"),
    Variable("CARGO_HTTP_CAINFO", Holds.AUTHORITY, "cargo"),
    Variable("AWS_CA_BUNDLE", Holds.AUTHORITY, "AWS clients"),
)
"""Java reads no such variable: it wants -Dhttps.proxyHost, -Dhttps.proxyPort and a trust store made by keytool."""

LOOPBACK_NAMES = "localhost,127.0.0.1,::1"


def client_environment(proxy: str, authority: str) -> Mapping[str, str]:
    """Every variable with its value. proxy: the URL of the gateway's listener; authority: path of the CA file."""
    values = {
        Holds.PROXY: proxy,
        Holds.AUTHORITY: authority,
        Holds.LOOPBACK: LOOPBACK_NAMES,
        Holds.SWITCH: "1",
    }
    return MappingProxyType({variable.name: values[variable.holds] for variable in VARIABLES})
