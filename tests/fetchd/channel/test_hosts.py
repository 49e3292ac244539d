"""Which endpoints an operator may write, and which URLs are then the provider's."""

from __future__ import annotations

import pytest

from fetchd.channel import parse_endpoint
from fetchd.errors import ChannelError
from proxy_addons.policy.targets import parse_target


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("https://search.example", "https://search.example:443"),
        ("https://search.example/", "https://search.example:443"),
        ("https://Search.Example:8443/base/", "https://search.example:8443/base"),
        ("https://10.1.2.3", "https://10.1.2.3:443"),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ("https://bücher.example", "https://xn--bcher-kva.example:443"),
        ("http://127.0.0.1:8888", "http://127.0.0.1:8888"),
        ("http://127.9.9.9/", "http://127.9.9.9:80"),
        ("http://[::1]:8888/searx", "http://[::1]:8888/searx"),
        ("http://localhost:8888", "http://localhost:8888"),
        ("http://searx.localhost:8888", "http://searx.localhost:8888"),
        ("http://localhost./", "http://localhost.:80"),
    ],
)
def test_endpoints(text: str, base: str) -> None:
    assert parse_endpoint(text).base == base


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://search.example", "plain http to another machine"),
        ("http://10.0.0.1", "plain http to another machine"),
        ("http://127.evil.example", "plain http to another machine"),
        ("http://localhost.evil.example", "plain http to another machine"),
        ("http://[::ffff:127.0.0.1]/", "plain http to another machine"),
        ("ftp://search.example", "another scheme"),
        ("unix:/run/search.sock", "another scheme"),
        ("https://user:canary@search.example", "user name or password"),
        ("https://canary@search.example", "user name or password"),
        ("https://search.example/?key=canary", "query or a fragment"),
        ("https://search.example/#a", "query or a fragment"),
        ("search.example", "no absolute URL"),
        ("", "no absolute URL"),
        ("https://", "no absolute URL"),
    ],
)
def test_endpoints_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(ChannelError, match=why) as caught:
        parse_endpoint(text)

    assert "canary" not in str(caught.value)


def test_only_scheme_host_and_port_of_the_endpoint() -> None:
    endpoint = parse_endpoint("https://search.example/base")

    assert endpoint.admits(parse_target("https://SEARCH.example:443/elsewhere?q=1"))
    for other in ("http://search.example/", "https://search.example:444/", "https://www.search.example/"):
        assert not endpoint.admits(parse_target(other))
