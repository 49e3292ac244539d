"""What the usual clients read from their environment to use a proxy and to trust its CA: one table.

Sources: each client's own documentation of the variable named. Two clients take no PEM file from a variable and get
a file of their own beside the CA's (`fetchd/running/client_files.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from types import MappingProxyType


class Holds(Enum):
    """What a variable holds."""

    PROXY = "the proxy's URL"
    AUTHORITY = "the path of the CA file, PEM"
    LOOPBACK = "names that are reached without the proxy"
    SWITCH = "1"
    WGETRC = "the path of a file that names the CA file to wget"
    JAVA = "options of a Java virtual machine: proxy, and a trust store with the CA"


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
    Variable("SSL_CERT_FILE", Holds.AUTHORITY, "OpenSSL, Python, httpx, aiohttp, uv, Go, Rust's native-tls"),
    Variable("REQUESTS_CA_BUNDLE", Holds.AUTHORITY, "Python requests"),
    Variable("CURL_CA_BUNDLE", Holds.AUTHORITY, "curl"),
    Variable("GIT_SSL_CAINFO", Holds.AUTHORITY, "git"),
    Variable("PIP_CERT", Holds.AUTHORITY, "pip"),
    Variable("NODE_EXTRA_CA_CERTS", Holds.AUTHORITY, "node, npm"),
    Variable("NPM_CONFIG_CAFILE", Holds.AUTHORITY, "npm"),
    Variable("DENO_CERT", Holds.AUTHORITY, "Deno"),
    Variable("CARGO_HTTP_CAINFO", Holds.AUTHORITY, "cargo"),
    Variable("AWS_CA_BUNDLE", Holds.AUTHORITY, "AWS clients"),
    Variable(
        "WGETRC", Holds.WGETRC, "wget, in place of ~/.wgetrc; built with GnuTLS it reads no SSL_CERT_FILE"
    ),
    Variable(
        "JAVA_TOOL_OPTIONS", Holds.JAVA, "every Java virtual machine, Maven's too; it says so on stderr"
    ),
)
"""Chromium reads the proxy, and trusts what certutil put into ~/.pki/nssdb."""

LOOPBACK_NAMES = "localhost,127.0.0.1,::1"
WGETRC_FILE = "wgetrc"
TRUST_STORE_FILE = "ca.p12"
"""These stand beside the CA file; the store needs no password."""


def client_environment(proxy: str, authority: str, direct: str = "") -> Mapping[str, str]:
    """Every variable with its value. proxy: the URL of the gateway's listener; authority: path of the CA file.

    direct: the host of the tools where that is not this machine; they are not asked through the gateway.
    """
    values = {
        Holds.PROXY: proxy,
        Holds.AUTHORITY: authority,
        Holds.LOOPBACK: f"{LOOPBACK_NAMES},{direct}" if direct else LOOPBACK_NAMES,
        Holds.SWITCH: "1",
        Holds.WGETRC: str(PurePath(authority).with_name(WGETRC_FILE)),
        Holds.JAVA: _java_options(proxy, str(PurePath(authority).with_name(TRUST_STORE_FILE)), direct),
    }
    return MappingProxyType({variable.name: values[variable.holds] for variable in VARIABLES})


def _java_options(proxy: str, trust_store: str, direct: str) -> str:
    """Java's networking properties. A user and password in `proxy` stay out: the machine prints its options."""
    host, _, port = proxy.partition("://")[2].rpartition("@")[2].rpartition(":")
    host = host.strip("[]")
    properties = {
        "https.proxyHost": host,
        "https.proxyPort": port,
        "http.proxyHost": host,
        "http.proxyPort": port,
        "http.nonProxyHosts": f"localhost|127.*|[::1]{f'|{direct}' if direct else ''}",
        "javax.net.ssl.trustStore": trust_store,
        "javax.net.ssl.trustStoreType": "PKCS12",
    }
    return " ".join(_quoted(f"-D{name}={value}") for name, value in properties.items())


def _quoted(option: str) -> str:
    """The machine splits at white space, and takes either quote for the whole of a word."""
    if not any(character.isspace() or character in "\"'" for character in option):
        return option
    return f"'{option}'" if "'" not in option else f'"{option}"'
