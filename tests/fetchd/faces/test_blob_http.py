"""`GET /v1/blobs/{digest}` over a real server: inert, verified, and only to the agent that read the page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpcore
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from fetchd.faces.blob_http import make_blob_route
from fetchd.running.serving import serving
from fetchd.store import PageStore
from fetchd.store.blobs import PIECE_BYTES, FileBlobs
from fetchd.store.fakes import MemoryBlobs, MemoryRecords
from tests.fetchd.store.kit import KEYS, blob_of, keep, open_files, page_read
from tests.kit.ports import bound_socket

PAGE = b"<script>alert(1)</script>" + bytes(PIECE_BYTES * 2)
DIGEST = blob_of(PAGE).digest


async def find_agent(request: Request) -> str | Response:
    """The test's way to say who asks."""
    return request.headers.get("agent") or Response(status_code=401)


@dataclass
class Served:
    store: PageStore
    url: str

    async def get(self, digest: str, agent: str = "alice", method: str = "GET") -> httpcore.Response:
        async with httpcore.AsyncConnectionPool() as pool:
            return await pool.request(method, f"{self.url}/v1/blobs/{digest}", headers={"agent": agent})


@asynccontextmanager
async def serve(store: PageStore) -> AsyncIterator[Served]:
    socket = bound_socket("127.0.0.1")
    socket.listen()
    app = Starlette(routes=[make_blob_route(store, find_agent)])
    async with serving(app, socket):
        yield Served(store, f"http://127.0.0.1:{socket.getsockname()[1]}")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with open_files(tmp_path) as store:
        await keep(store, PAGE)
        await store.seal(page_read(body=PAGE, agent="alice"))
        async with serve(store) as found:
            yield found


def fields(response: httpcore.Response) -> dict[str, str]:
    return {name.decode().lower(): value.decode() for name, value in response.headers}


def problem(response: httpcore.Response) -> tuple[int, str]:
    assert fields(response)["content-type"] == "application/problem+json"
    document = json.loads(response.content)
    assert document["status"] == response.status
    return response.status, document["detail"]


async def test_a_page_is_bytes_to_be_saved_and_nothing_else(served: Served) -> None:
    response = await served.get(DIGEST)

    assert (response.status, response.content) == (200, PAGE)
    found = fields(response)
    assert found["content-type"] == "application/octet-stream"
    assert found["content-disposition"] == f'attachment; filename="{DIGEST.replace(":", "-")}.bin"'
    assert found["x-content-type-options"] == "nosniff"
    assert found["content-security-policy"] == "sandbox; default-src 'none'"
    assert found["content-length"] == str(len(PAGE))
    assert found["cross-origin-resource-policy"] == "same-origin"


async def test_its_head_alone(served: Served) -> None:
    response = await served.get(DIGEST, method="HEAD")

    assert (response.status, response.content) == (200, b"")
    assert fields(response)["content-length"] == str(len(PAGE))


@pytest.mark.parametrize(
    ("digest", "agent", "status", "said"),
    [
        pytest.param(DIGEST, "bob", 404, "no read of yours had this blob", id="another agent's"),
        pytest.param(blob_of(b"x").digest, "alice", 404, "no read of yours had this blob", id="nobody's"),
        pytest.param("sha256:x", "alice", 404, "is not a digest", id="no digest"),
        pytest.param("..%2f..%2fkeys%2freceipt.key", "alice", 404, "", id="a path"),
    ],
)
async def test_what_is_not_to_be_had(served: Served, digest: str, agent: str, status: int, said: str) -> None:
    response = await served.get(digest, agent)

    assert response.status == status
    assert not said or said in problem(response)[1]


async def test_another_agent_cannot_tell_whether_a_page_is_here(served: Served) -> None:
    here, nowhere = await served.get(DIGEST, "bob"), await served.get(blob_of(b"x").digest, "bob")

    assert (here.status, here.content) == (nowhere.status, nowhere.content)


async def test_who_is_nobody_gets_the_answer_of_whoever_asks_him(served: Served) -> None:
    assert (await served.get(DIGEST, "")).status == 401


async def test_a_page_dropped_since(served: Served) -> None:
    served.store.blobs.remove(DIGEST)

    assert problem(await served.get(DIGEST)) == (410, f"{DIGEST} was kept and has been dropped since")
    assert (await served.get(DIGEST, "bob")).status == 404


async def test_a_damaged_page_is_an_error_before_its_first_byte(served: Served) -> None:
    blobs = served.store.blobs
    assert isinstance(blobs, FileBlobs)
    blobs.path(DIGEST).write_bytes(PAGE[:-1] + b"x")

    status, said = problem(await served.get(DIGEST))
    assert status == 500 and "damaged" in said and "sha256" not in said


async def test_a_page_that_is_damaged_under_way_never_arrives_whole(tmp_path: Path) -> None:
    class Rotting(MemoryBlobs):
        """Bytes change once they were verified."""

        @asynccontextmanager
        async def open_verified(self, digest: str):
            async with MemoryBlobs.open_verified(self, digest) as reader:
                self.bodies[digest] = self.bodies[digest][:-1] + b"x"
                yield reader

    store = PageStore(Rotting(), MemoryRecords(), KEYS)
    await keep(store, PAGE)
    await store.note(page_read(body=PAGE))
    async with serve(store) as served:
        with pytest.raises(httpcore.RemoteProtocolError):
            await served.get(DIGEST)


async def test_a_store_that_cannot_be_read(tmp_path: Path) -> None:
    records = MemoryRecords()
    async with serve(PageStore(MemoryBlobs(), records, KEYS)) as served:
        records.fail_next = 1
        assert problem(await served.get(DIGEST)) == (503, "the store cannot be read now")
