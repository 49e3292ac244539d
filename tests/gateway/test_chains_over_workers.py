"""Redirect chains counted right over two workers and between two agents (SPEC 1.4; docs/bypasses.md, row 42).

Which worker has a connection is for the kernel to say; the test finds out from the audit file that the request was
written to, and then sends the hops of one chain to both in turn.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest

from tests.gateway.kept import KeptClient
from tests.gateway.paths import Entry
from tests.kit import replies
from tests.kit.client import Response
from tests.kit.gateway import World

ENTRIES = [
    Entry.ABSOLUTE_HTTPS,
    Entry.CONNECT_H1,
    Entry.CONNECT_H2,
    Entry.TLS_LISTENER,
    Entry.TLS_LISTENER_CONNECT,
]
ALICE, BOB = 0, 1
_numbers = itertools.count()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two workers; two listeners of one profile, which are two agents."""
    with World(tmp_path_factory.mktemp("workers"), listeners=("open", "open"), workers=2) as world:
        yield world


def worker_of(world: World, answer: Response) -> str:
    """The audit series that the answer's decision stands in, which is one a worker."""
    wanted = answer.header("fetchd-id")
    for path in (world.gateway.state / "audit").glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            if f'"{wanted}"' in line and json.loads(line).get("fetch_id") == wanted:
                return path.name.rpartition("-")[0]
    raise AssertionError(f"no audit line for {wanted}")


@pytest.fixture
def clients(world: World, request: pytest.FixtureRequest) -> Iterator[dict[int, list[KeptClient]]]:
    """For each agent a client at either worker, its connection standing."""
    entry: Entry = request.param
    opened: list[KeptClient] = []
    found: dict[int, list[KeptClient]] = {}
    for agent in (ALICE, BOB):
        by_worker: dict[str, KeptClient] = {}
        for _ in range(64):
            client = KeptClient(world, entry, listener=agent)
            opened.append(client)
            by_worker.setdefault(worker_of(world, client.get(client.url("/which"))), client)
            if len(by_worker) == 2:
                break
        found[agent] = list(by_worker.values())
        assert len(found[agent]) == 2, "64 connections, and all at one worker"
    yield found
    for client in opened:
        client.__exit__()


def lay_chain(world: World, redirects: int) -> str:
    paths = [f"/{next(_numbers)}" for _ in range(redirects + 1)]
    for here, there in itertools.pairwise(paths):
        world.origin.route(here, replies.redirect(there))
    return paths[0]


def walk(clients: list[KeptClient], path: str) -> Iterator[Response]:
    """Follow from `path`, each hop by the next client in turn."""
    url = clients[0].url(path)
    for client in itertools.cycle(clients):
        answer = client.get(url)
        yield answer
        location = answer.header("location")
        if location is None:
            return
        url = urljoin(url, location)


def hops(world: World, answers: list[Response]) -> list[int]:
    lines = {line["fetch_id"]: line["hop"] for line in world.gateway.decisions()}
    return [lines[answer.header("fetchd-id")] for answer in answers]


@pytest.mark.parametrize("clients", ENTRIES, indirect=True)
def test_five_redirects_are_followed_over_both_workers(
    world: World, clients: dict[int, list[KeptClient]]
) -> None:
    answers = list(walk(clients[ALICE], lay_chain(world, 5)))
    assert [answer.status for answer in answers] == [302] * 5 + [200]
    assert hops(world, answers) == [0, 1, 2, 3, 4, 5]
    assert len({worker_of(world, answer) for answer in answers}) == 2


@pytest.mark.parametrize("clients", ENTRIES, indirect=True)
def test_a_sixth_redirect_is_refused_over_both_workers(
    world: World, clients: dict[int, list[KeptClient]]
) -> None:
    answers = list(walk(clients[ALICE], lay_chain(world, 6)))
    assert [answer.header("fetchd-rule") for answer in answers] == [None] * 5 + ["redirect-cap"]


@pytest.mark.parametrize("clients", ENTRIES, indirect=True)
def test_two_agents_on_one_chain_are_counted_apart(
    world: World, clients: dict[int, list[KeptClient]]
) -> None:
    path = lay_chain(world, 6)
    alice, bob = walk(clients[ALICE], path), walk(list(reversed(clients[BOB])), path)
    first = [next(alice), next(alice), next(alice)]
    second = [next(bob), next(bob)]
    first += alice
    second += bob
    assert hops(world, first) == hops(world, second) == [0, 1, 2, 3, 4, 5]
    assert first[-1].header("fetchd-rule") == second[-1].header("fetchd-rule") == "redirect-cap"


@pytest.mark.parametrize("clients", ENTRIES[:2], indirect=True)
def test_what_one_agent_was_sent_to_is_a_fresh_request_of_another(
    world: World, clients: dict[int, list[KeptClient]]
) -> None:
    path = lay_chain(world, 2)
    (first, second, *_), (other, *_) = clients[ALICE], clients[BOB]
    sent_to = first.get(first.url(path)).header("location") or ""
    strange = other.get(urljoin(first.url(path), sent_to))
    followed = second.get(urljoin(first.url(path), sent_to))
    again = second.get(urljoin(first.url(path), sent_to))
    assert hops(world, [strange, followed, again]) == [0, 1, 0]


@pytest.mark.parametrize("clients", ENTRIES[:2], indirect=True)
def test_two_chains_of_one_agent_side_by_side_do_not_shorten_each_other(
    world: World, clients: dict[int, list[KeptClient]]
) -> None:
    """Both lead through the same page: the chain that is further gets the higher number."""
    long, short = lay_chain(world, 4), f"/{next(_numbers)}"
    walked = walk(clients[ALICE], long)
    answers = [next(walked) for _ in range(3)]
    meeting = answers[-1].header("location") or ""
    world.origin.route(short, replies.redirect(meeting))
    client = clients[ALICE][1]
    client.get(client.url(short))
    reached = [client.get(urljoin(client.url(short), meeting)) for _ in range(2)]
    assert hops(world, reached) == [3, 1]
