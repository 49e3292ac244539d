"""Whatever a caller writes: one request to the endpoint, the parameters of the dialect, the values as written.

No argument reaches another host, adds a parameter or a field, or carries a credential.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchd.channel import ChannelRequest
from fetchd.channel.fields import render_fields
from fetchd.channel.hosts import parse_endpoint
from fetchd.search.interface import Freshness, SafeSearch, SearchArguments, SearchFailure
from fetchd.search.providers.brave import BRAVE, PATH
from fetchd.search.providers.dialect import Dialect
from fetchd.search.providers.gateway import GATEWAY
from fetchd.search.providers.searxng import SEARXNG
from fetchd.search.providers.tavily import TAVILY
from proxy_addons.policy.targets import parse_target
from tests.fetchd.search.providers.tables import BASE, KEY, SETTINGS, parameters

WHERE = {
    "gateway": f"{BASE}/v1/search",
    "brave": BASE + PATH,
    "searxng": f"{BASE}/search",
    "tavily": f"{BASE}/search",
}
QUERY = {"gateway": "query", "brave": "q", "searxng": "q", "tavily": "query"}
NAMES = {
    "gateway": "query count freshness country search_lang safesearch include_domains exclude_domains".split(),
    "brave": "q count freshness country search_lang safesearch goggles text_decorations spellcheck"
    " result_filter".split(),
    "searxng": "q format language time_range safesearch".split(),
    "tavily": "query include_usage max_results time_range country include_domains exclude_domains".split(),
}
DIALECTS = (GATEWAY, BRAVE, SEARXNG, TAVILY)

HOSTILE = [
    "a&format=html&language=xx",
    "a#fragment",
    "a?b=c",
    "a\r\nX-Subscription-Token: mine\r\n\r\nGET / HTTP/1.1",
    "a\x00b",
    'a","topic":"news","x":"',
    "%26format%3Dhtml",
    "https://other.example/",
    "@other.example",
    "\\other.example",
    "../../admin",
    "Bearer other",
    "é世😀\u202e\u2028",
    "a;b,c",
    "a\n$boost=10",
    "＆ｆｏｒｍａｔ＝ｈｔｍｌ",
]

texts = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
hosts = st.sampled_from(
    [
        *HOSTILE,
        "a.example",
        "*.b.example",
        "bücher.example",
        "a,boost=9",
        "$discard",
        "a|b",
        "a^",
        "-",
        "..",
        "xn--",
    ]
) | st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=30)
arguments = st.builds(
    SearchArguments,
    texts,
    st.none() | st.integers(1, 20),
    st.none() | st.sampled_from(Freshness),
    st.none() | st.sampled_from(["us", "DE", "gb"]) | texts,
    st.none() | st.sampled_from(["en", "de"]) | texts,
    st.none() | st.sampled_from(SafeSearch),
    st.lists(hosts, max_size=20).map(tuple),
    st.lists(hosts, max_size=20).map(tuple),
)


def check(dialect: Dialect, wanted: SearchArguments) -> None:
    request = dialect.render(wanted, SETTINGS)
    if isinstance(request, SearchFailure):
        assert request.message.startswith(f'provider "{dialect.name}" cannot honour ')
        assert re.search(r"[\x00-\x1f\x7f]", request.message) is None
        return
    target = parse_target(request.url)
    assert parse_endpoint(BASE).admits(target) and not target.has_credentials
    assert request.url.partition("?")[0] == WHERE[dialect.name]
    assert "#" not in request.url
    found = parameters(request)
    assert set(found) <= set(NAMES[dialect.name])
    assert found[QUERY[dialect.name]] == wanted.query
    assert KEY.encode() not in request.body and KEY not in request.url and KEY not in str(request.fields)
    fields = [
        (name.decode(), value.decode()) for name, value in render_fields(request, "search.example:8443")
    ]
    assert [value for name, value in fields if KEY in value] == [
        fields[-2 if request.method == "POST" else -1][1]
    ]
    _check_goggles(request, wanted)


def _check_goggles(request: ChannelRequest, wanted: SearchArguments) -> None:
    rules = parameters(request).get("goggles")
    if rules is None:
        return
    lines = rules.split("\n")
    assert len(lines) == bool(wanted.include_domains) + len(wanted.include_domains) + len(
        wanted.exclude_domains
    )
    for line in lines:
        assert re.fullmatch(r"\$discard|\$site=[a-z0-9._-]+|\$discard,site=[a-z0-9._-]+", line), line


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@given(wanted=arguments)
def test_any_arguments(dialect: Dialect, wanted: SearchArguments) -> None:
    check(dialect, wanted)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("text", HOSTILE)
def test_each_argument_hostile(dialect: Dialect, text: str) -> None:
    for wanted in (
        SearchArguments(text),
        SearchArguments("a", country=text),
        SearchArguments("a", search_lang=text),
        SearchArguments("a", include_domains=(text,) * 20),
        SearchArguments("a", exclude_domains=(text,) * 20),
    ):
        check(dialect, wanted)


@pytest.mark.parametrize("dialect", [GATEWAY, TAVILY], ids=lambda one: one.name)
def test_hosts_are_passed_on_as_written(dialect: Dialect) -> None:
    entries = ("a.example", "*.b.example", "Bücher.Example.", "a,b")
    request = dialect.render(SearchArguments("a", include_domains=entries), SETTINGS)

    assert isinstance(request, ChannelRequest)
    assert json.loads(request.body)["include_domains"] == list(entries)
