"""Single functions: the admission ladder on a URL, and the judgement of an address, over varied input."""

import itertools
import timeit
from collections.abc import Callable
from dataclasses import dataclass

from proxy_addons.policy.addresses import AddressTable, classify_address
from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.config import parse_config

URLS = tuple(
    form.format(n=n, host=host)
    for n, host in enumerate(
        ("example.com", "docs.example.org", "a.b.c.example.net", "xn--bcher-kva.example")
    )
    for form in (
        "https://{host}/",
        "https://{host}/path/to/page-{n}?query=one&other=two",
        "https://{host}:443/a/b/c.html#part",
        "https://{host}/search?q=a%20b",
        "https://EXAMPLE{n}.com/../x",
        "http://{host}/",
        "https://user:secret@{host}/",
        "https://{host}:8443/",
        "https://127.0.0.{n}/",
        "https://[2001:db8::{n}]/",
        "https://0x7f.{n}/",
        "no url at all {n}",
    )
)
"""Allowed ones and one for each early rung of the ladder."""

ADDRESSES = tuple(
    [f"93.184.{n}.{n * 7 % 256}" for n in range(64)]
    + [f"10.{n}.0.1" for n in range(32)]
    + [f"2606:2800:220:1::{n:x}" for n in range(64)]
    + [f"64:ff9b::{n:x}" for n in range(32)]
    + ["169.254.169.254", "127.0.0.1", "::1", "fe80::1", "::ffff:10.0.0.1"]
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds a call, the least of many short repeats: what the function costs when nothing disturbs it."""

    name: str
    microseconds: float
    expected_below: float


def time_functions(repeats: int = 300, passes: int = 8) -> list[Timing]:
    """Admission and address check."""
    profile = parse_config({}, source="benchmark").profiles["default"]
    urls, addresses, table = itertools.cycle(URLS), itertools.cycle(ADDRESSES), AddressTable()

    def admit() -> None:
        decide_url(next(urls), "GET", profile)

    def judge() -> None:
        classify_address("example.com", 443, next(addresses), table)

    return [
        Timing("admission of a URL", _least(admit, repeats, passes * len(URLS)), 5.0),
        Timing("judgement of an address", _least(judge, repeats, passes * len(ADDRESSES)), 1.0),
    ]


def _least(call: Callable[[], None], repeats: int, calls: int) -> float:
    return min(timeit.repeat(call, repeat=repeats, number=calls)) / calls * 1e6
