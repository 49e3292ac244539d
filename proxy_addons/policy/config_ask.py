"""[web], [ask] and [vendors.NAME] of a configuration: what a completion may do on the web, and who is asked for one.

good   allowed_domains = ["docs.rs", "*.example.com"]
bad    ["https://docs.rs"]   ["docs.rs:443"]   ["*"] (to allow every host, leave the list empty)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from .config_forms import Form, FormError, read_host, read_list
from .hosts import HostPattern
from .vendors.dialects import DEFAULT_DIALECTS, DIALECTS, Vendor

MAX_DOMAINS = 1000
"""Entries of one list; vendors take 64 to 100."""
MAX_USES = 1000
DEFAULT_STEPS = 8
DEFAULT_TOKENS = 500_000
"""A paused answer with ten searches takes up to 400,000."""
DEFAULT_ANSWER_TOKENS = 4096
DEFAULT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class WebConfig:
    """[web]: what was written, as written."""

    search: bool = False
    fetch: bool = False
    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskConfig:
    """[ask]. max_tokens: of the whole run, both ways. answer_tokens: of one answer. timeout: of the whole run."""

    provider: Vendor = Vendor.ANTHROPIC
    fallbacks: tuple[Vendor, ...] = ()
    max_steps: int = DEFAULT_STEPS
    max_tokens: int = DEFAULT_TOKENS
    answer_tokens: int = DEFAULT_ANSWER_TOKENS
    timeout: float = DEFAULT_SECONDS


ENDPOINTS: Mapping[Vendor, str] = MappingProxyType(
    {
        Vendor.ANTHROPIC: "https://api.anthropic.com",
        Vendor.OPENAI: "https://api.openai.com",
        Vendor.OPENROUTER: "https://openrouter.ai",
    }
)
KEY_VARIABLES: Mapping[Vendor, str] = MappingProxyType(
    {
        Vendor.ANTHROPIC: "ANTHROPIC_API_KEY",
        Vendor.OPENAI: "OPENAI_API_KEY",
        Vendor.OPENROUTER: "OPENROUTER_API_KEY",
    }
)
"""As the vendors' own SDKs call them."""


@dataclass(frozen=True, slots=True)
class VendorConfig:
    """[vendors.NAME]. key_file: absolute when read from a file. model: None where each call has to name one."""

    name: Vendor
    endpoint: str
    dialect: str
    model: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    hosts: tuple[HostPattern, ...] = ()
    """Where agents' own calls to it are held to their profile (`vendors.endpoints`)."""

    @property
    def key_variable(self) -> str | None:
        """The variable that holds the key; None where a file does."""
        if self.key_env is not None or self.key_file is not None:
            return self.key_env
        return KEY_VARIABLES[self.name]

    @property
    def reach(self) -> tuple[str | None, ...]:
        """How it is reached, which stays as it is while it runs."""
        return self.endpoint, self.key_env, self.key_file


@dataclass(frozen=True, slots=True)
class AskTables:
    """All of it. web: None where the file has no such table, which is not the same as one that says no."""

    web: WebConfig | None = None
    ask: AskConfig = field(default_factory=AskConfig)
    vendors: Mapping[Vendor, VendorConfig] = field(default_factory=dict)


# --------------------------------------------------------------------------------------------------- forms

_VENDORS = ", ".join(f'"{name}"' for name in Vendor)


def _read_vendor(value: object) -> Vendor:
    if not isinstance(value, str) or value not in list(Vendor):
        raise FormError(f"write one of {_VENDORS}")
    return Vendor(value)


def _read_domain(value: object) -> str:
    try:
        pattern = read_host(value)
    except FormError as error:
        raise FormError(error.what.replace(" or *.docs.rs:443", " or *.docs.rs")) from None
    if pattern.port is not None or not pattern.suffix:
        raise FormError(
            "write a host name alone, such as docs.rs or *.docs.rs; to allow all, leave the list empty"
        )
    return str(pattern)


def dialect_form(vendor: Vendor) -> Form[str]:
    """The names of a vendor's dialects."""
    names = [name for name, row in DIALECTS.items() if row.vendor is vendor]

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in names:
            raise FormError
        return value

    return Form("one of " + ", ".join(f'"{name}"' for name in names), read, str)


def _read_model(value: object) -> str:
    # Printable, for it stands in lists and messages.
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= 200
        or not value.isprintable()
        or value != value.strip()
    ):
        raise FormError
    return value


VENDOR: Form[Vendor] = Form(f"one of {_VENDORS}", _read_vendor, str)
VENDORS: Form[tuple[Vendor, ...]] = Form(
    f"a list of {_VENDORS}",
    lambda value: read_list(value, _read_vendor, most=len(Vendor)),
    lambda names: [str(name) for name in names],
)
DOMAINS: Form[tuple[str, ...]] = Form(
    "a list of host names and *.names",
    lambda value: tuple(dict.fromkeys(read_list(value, _read_domain, most=MAX_DOMAINS))),
    list,
)
MODEL: Form[str] = Form("the vendor's name of a model", _read_model, str)


def make_ask_tables(tables: Mapping[str, Mapping[str, Any]], *, has_web: bool) -> AskTables:
    """Of the values of [web], [ask] and each [vendors.NAME], by the names of the tables."""
    vendors = {name: VendorConfig(name, **tables[f"vendors.{name}"]) for name in Vendor}
    web = WebConfig(**tables["web"]) if has_web else None
    return AskTables(web, AskConfig(**tables["ask"]), MappingProxyType(vendors))


def ask_values(tables: AskTables) -> dict[tuple[str, str], Any]:
    """The way back: values by table and key; none of [web] where there is none."""
    values: dict[tuple[str, str], Any] = {}
    if tables.web is not None:
        values |= {("web", name): getattr(tables.web, name) for name in _names(WebConfig)}
    values |= {("ask", name): getattr(tables.ask, name) for name in _names(AskConfig)}
    for vendor, one in tables.vendors.items():
        values |= {(f"vendors.{vendor}", name): getattr(one, name) for name in _names(VendorConfig)[1:]}
    return values


def _names(table: type[WebConfig | AskConfig | VendorConfig]) -> list[str]:
    return [one.name for one in fields(table)]


def default_dialect(vendor: Vendor) -> str:
    """What the vendor accepts today."""
    return DEFAULT_DIALECTS[vendor]
