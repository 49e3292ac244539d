"""How sessions are counted: from the answer that names one to its end, whichever way it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fetchd.faces.mcp_sessions import SessionShares

IDLE = 100.0


class Server:
    """Answers as told, and meanwhile does what a test wants to look at."""

    def __init__(self, most: int = 1) -> None:
        self.now = 0.0
        self.shares = SessionShares(most, IDLE, lambda: self.now)

    async def ask(
        self,
        status: int,
        *,
        agent: str = "a",
        session: str | None = None,
        opens: str | None = None,
        method: str = "POST",
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            fields = [(b"Mcp-Session-Id", opens.encode())] if opens else []
            meanwhile()
            await send({"type": "http.response.start", "status": status, "headers": fields})

        async def receive() -> Any: ...

        async def send(message: Any) -> None: ...

        headers = [(b"mcp-session-id", session.encode())] if session else []
        await self.shares.run(app, agent, {"method": method, "headers": headers}, receive, send)


async def test_a_session_counts_for_its_agent_until_it_is_deleted() -> None:
    server = Server()
    assert not server.shares.is_full("a")
    await server.ask(200, opens="s1")

    assert server.shares.is_full("a") and not server.shares.is_full("b")
    await server.ask(200, session="s1")
    assert server.shares.is_full("a")
    await server.ask(200, session="s1", method="DELETE")
    assert not server.shares.is_full("a")


@pytest.mark.parametrize(
    ("status", "method", "agent", "full"),
    [
        pytest.param(404, "POST", "a", False, id="it is not there any more"),
        pytest.param(404, "POST", "b", True, id="so is it to another, always"),
        pytest.param(405, "DELETE", "a", True, id="a deletion that was refused"),
        pytest.param(200, "DELETE", "a", False, id="one that was not"),
        pytest.param(400, "POST", "a", True, id="a request that was"),
    ],
)
async def test_how_one_ends(status: int, method: str, agent: str, full: bool) -> None:
    server = Server()
    await server.ask(200, opens="s1")
    await server.ask(status, session="s1", method=method, agent=agent)

    assert server.shares.is_full("a") is full


@pytest.mark.parametrize(("later", "full"), [(IDLE, True), (IDLE + 1, False)])
async def test_one_that_is_idle_has_ended(later: float, full: bool) -> None:
    server = Server()
    await server.ask(200, opens="s1")
    server.now += later

    assert server.shares.is_full("a") is full


async def test_one_with_a_request_under_way_is_not_idle() -> None:
    server, found = Server(), []
    await server.ask(200, opens="s1")

    def wait_long() -> None:
        server.now += 10 * IDLE
        found.append(server.shares.is_full("a"))

    await server.ask(200, session="s1", method="GET", meanwhile=wait_long)

    assert found == [True]
    assert server.shares.is_full("a")  # and its time begins when that ends
    server.now += IDLE + 1
    assert not server.shares.is_full("a")


async def test_another_agent_keeps_nothing_alive() -> None:
    server, found = Server(), []
    await server.ask(200, opens="s1")
    server.now += IDLE + 1
    await server.ask(404, session="s1", agent="b", meanwhile=lambda: found.append(server.shares.is_full("a")))

    assert found == [False]


async def test_one_being_opened_counts_and_one_that_was_not_opened_does_not() -> None:
    server, found = Server(), []
    await server.ask(400, meanwhile=lambda: found.append(server.shares.is_full("a")))

    assert found == [True]
    assert not server.shares.is_full("a")


async def test_a_fault_leaves_nothing_counted() -> None:
    server = Server()

    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await server.ask(200, opens="s1", meanwhile=fail)
    assert not server.shares.is_full("a")
