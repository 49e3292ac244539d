"""What every Resolver does; the real client against a scripted server and the fake pass the same test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from proxy_addons.resolve.dns_client import DnsClient
from proxy_addons.resolve.fake import FakeResolver, Held
from proxy_addons.resolve.nameservers import Nameserver
from proxy_addons.resolve.resolver import Answer, LookupFailure, RecordType, Resolver
from tests.kit.dns import SERVFAIL, Addresses, Drop, ScriptedDns

A, AAAA = RecordType.A, RecordType.AAAA
LONG_LABEL = "x" * 63
LONG_NAME = ".".join([LONG_LABEL] * 3 + ["y" * 61])  # 253 octets

Asked = Callable[[], int]


def scripted(server: ScriptedDns) -> None:
    server.script("both.example", "A", Addresses("192.0.2.1", "192.0.2.2"))
    server.script("both.example", "AAAA", Addresses("2001:db8::1"))
    server.script("four.example", "A", Addresses("192.0.2.4"))
    server.script("flip.example", "A", Addresses("192.0.2.1"), Addresses("127.0.0.1"))
    server.script("fail.example", "A", SERVFAIL)
    server.script("silent.example", "A", Drop())
    server.script(LONG_NAME, "A", Addresses("192.0.2.9"))
    server.script("_dmarc.under_score.example", "A", Addresses("192.0.2.8"))


def fake() -> FakeResolver:
    return FakeResolver(
        {
            ("both.example", A): Answer(A, ("192.0.2.1", "192.0.2.2")),
            ("both.example", AAAA): Answer(AAAA, ("2001:db8::1",)),
            ("four.example", A): Answer(A, ("192.0.2.4",)),
            ("flip.example", A): [Answer(A, ("192.0.2.1",)), Answer(A, ("127.0.0.1",))],
            ("fail.example", A): Answer(A, failure=LookupFailure.SERVFAIL),
            ("silent.example", A): Held(asyncio.Event(), Answer(A)),
            (LONG_NAME, A): Answer(A, ("192.0.2.9",)),
            ("_dmarc.under_score.example", A): Answer(A, ("192.0.2.8",)),
        }
    )


@pytest.fixture(params=["real", "fake"])
def resolver(request: pytest.FixtureRequest) -> Iterator[tuple[Resolver, Asked]]:
    if request.param == "fake":
        resolver = fake()
        yield resolver, lambda: len(resolver.asked)
        return
    with ScriptedDns() as server:
        scripted(server)
        yield DnsClient([Nameserver(server.host, server.port)]), server.count


@pytest.mark.parametrize(
    ("host", "rtype", "expected"),
    [
        pytest.param("both.example", A, Answer(A, ("192.0.2.1", "192.0.2.2")), id="addresses in order"),
        pytest.param("both.example", AAAA, Answer(AAAA, ("2001:db8::1",)), id="the other type"),
        pytest.param("both.example.", A, Answer(A, ("192.0.2.1", "192.0.2.2")), id="a last dot is fine"),
        pytest.param("BOTH.Example", A, Answer(A, ("192.0.2.1", "192.0.2.2")), id="letter case is nothing"),
        pytest.param("four.example", AAAA, Answer(AAAA), id="no data is no failure"),
        pytest.param("none.example", A, Answer(A, failure=LookupFailure.NXDOMAIN), id="no such name"),
        pytest.param("fail.example", A, Answer(A, failure=LookupFailure.SERVFAIL), id="server failure"),
        pytest.param(LONG_NAME, A, Answer(A, ("192.0.2.9",)), id="253 octets, labels of 63"),
        pytest.param("_dmarc.under_score.example", A, Answer(A, ("192.0.2.8",)), id="underscores"),
    ],
)
async def test_answers_after_one_query(
    resolver: tuple[Resolver, Asked], host: str, rtype: RecordType, expected: Answer
) -> None:
    subject, asked = resolver
    assert await subject.resolve(host, rtype) == expected
    assert asked() == 1


@pytest.mark.parametrize(
    ("host", "rtype", "expected"),
    [
        pytest.param("localhost", A, Answer(A, ("127.0.0.1",)), id="localhost A"),
        pytest.param("localhost.", AAAA, Answer(AAAA, ("::1",)), id="localhost with a dot AAAA"),
        pytest.param("LocalHost", A, Answer(A, ("127.0.0.1",)), id="localhost in other letters"),
        pytest.param("a.b.localhost", AAAA, Answer(AAAA, ("::1",)), id="below localhost"),
        *(
            pytest.param(host, A, Answer(A, failure=LookupFailure.BAD_NAME), id=reason)
            for host, reason in {
                "": "no name",
                ".": "the root",
                "a..example": "an empty label",
                ".example": "a leading dot",
                "a.example..": "two last dots",
                "a..localhost": "an empty label below localhost",
                LONG_LABEL + "x.example": "a label of 64",
                LONG_NAME + "z": "254 octets",
                "\ud800.example": "no octets at all",
            }.items()
        ),
    ],
)
async def test_answers_without_a_query(
    resolver: tuple[Resolver, Asked], host: str, rtype: RecordType, expected: Answer
) -> None:
    subject, asked = resolver
    assert await subject.resolve(host, rtype) == expected
    assert asked() == 0


async def test_caches_nothing(resolver: tuple[Resolver, Asked]) -> None:
    subject, asked = resolver
    answers = [(await subject.resolve("flip.example", A)).addresses for _ in range(3)]
    assert answers == [("192.0.2.1",), ("127.0.0.1",), ("127.0.0.1",)]
    assert asked() == 3


async def test_a_look_up_can_be_cancelled(resolver: tuple[Resolver, Asked]) -> None:
    subject, asked = resolver
    task = asyncio.ensure_future(subject.resolve("silent.example", A))
    while asked() == 0:  # noqa: ASYNC110 the count is the event that both resolvers have
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
