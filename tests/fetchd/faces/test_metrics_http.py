"""Who may read /metrics: this machine on loopback, else whoever has the metrics token or the operator's."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping

import pytest

from fetchd.faces.metrics_http import METRICS_PATH, MetricsPage
from fetchd.faces.operator import make_operator_app
from fetchd.faces.operator_access.access import Access
from fetchd.metrics.collecting import Collecting, GatewayNumbers
from fetchd.running.health import Readiness
from fetchd.running.serving import listen_on, serving
from proxy_addons.audit.health import AuditHealth
from proxy_addons.policy.agents import digest_token
from tests.kit.sync import PATIENCE

OPERATOR, SCRAPER = "fetchd-operator.secret-of-the-operator", "the-scrapers-own-secret"


class Gateway:
    async def ask_numbers(self) -> GatewayNumbers | None:
        return GatewayNumbers({"fetchd_hops_open": [[[], 3]]}, 1, 1, 1)


async def get(
    *, exposed: bool, token: str | None, fields: Mapping[str, str], path: str = METRICS_PATH
) -> tuple[int, str]:
    """Status and body. token: the metrics token that is configured."""

    async def check_ready() -> Readiness:
        return Readiness()

    def ask(port: int) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers=dict(fields))
            answer = connection.getresponse()
            assert answer.status not in (200, 401) or answer.getheader("cache-control") == "no-store"
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    listening = listen_on("operator", "127.0.0.1", 0)
    port = listening.getsockname()[1]
    access = Access(lambda: frozenset({digest_token(OPERATOR)}), port=port, secure=False)
    own = AuditHealth(True, 1, 1, 0, 0, 0.0, 0.0)
    page = MetricsPage(
        Collecting(Gateway(), dict, lambda: own, "daemon"),
        access,
        lambda: digest_token(token) if token is not None else None,
        exposed=exposed,
    )
    app = make_operator_app(
        check_ready, access=access, pages=[page.route()], open_paths=frozenset({METRICS_PATH})
    )
    async with serving(app, listening):
        return await asyncio.to_thread(ask, port)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


ROWS = [
    # exposed, configured token, fields, status
    pytest.param(False, None, {}, 200, id="loopback, no token: open"),
    pytest.param(False, SCRAPER, {}, 401, id="loopback, a token is configured"),
    pytest.param(False, SCRAPER, bearer(SCRAPER), 200, id="and sent"),
    pytest.param(True, None, {}, 401, id="beyond loopback, no token"),
    pytest.param(True, None, bearer(OPERATOR), 200, id="the operator's own"),
    pytest.param(True, SCRAPER, bearer(OPERATOR), 200, id="the operator's own beside a metrics token"),
    pytest.param(True, SCRAPER, bearer(SCRAPER), 200, id="the metrics token"),
    pytest.param(True, SCRAPER, bearer(SCRAPER + "x"), 401, id="nearly the metrics token"),
    pytest.param(True, SCRAPER, bearer(digest_token(SCRAPER)), 401, id="its digest"),
    pytest.param(True, SCRAPER, bearer(""), 401, id="an empty one"),
    pytest.param(True, None, bearer(SCRAPER), 401, id="a token that is not configured"),
    pytest.param(True, SCRAPER, {"Authorization": f"Basic {SCRAPER}"}, 401, id="another scheme"),
    pytest.param(True, SCRAPER, bearer("y" * 4000), 401, id="a long one"),
]


@pytest.mark.parametrize(("exposed", "token", "fields", "status"), ROWS)
async def test_who_may_read(exposed: bool, token: str | None, fields: Mapping[str, str], status: int) -> None:
    found, body = await get(exposed=exposed, token=token, fields=fields)
    assert found == status
    assert ("fetchd_hops_open 3.0" in body) == (status == 200)
    assert OPERATOR not in body and SCRAPER not in body


async def test_the_metrics_token_opens_nothing_else() -> None:
    status, _ = await get(exposed=True, token=SCRAPER, fields=bearer(SCRAPER), path="/")
    assert status in (401, 404)
    status, _ = await get(exposed=True, token=SCRAPER, fields=bearer(SCRAPER), path="/anything")
    assert status == 401


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"Host": "evil.example"}, 421, id="a rebinding name"),
        pytest.param({"Origin": "https://evil.example"}, 403, id="another page's script"),
    ],
)
async def test_web_pages_cannot_read_it(fields: Mapping[str, str], status: int) -> None:
    found, body = await get(exposed=False, token=None, fields=fields)
    assert found == status and "fetchd_hops" not in body
