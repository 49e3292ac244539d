"""The environment of agents' clients: what each variable holds, above all the options of a Java machine."""

from __future__ import annotations

import shlex

import pytest

from fetchd.core.client_environment import VARIABLES, client_environment


def test_every_variable_of_the_table_is_there_once() -> None:
    found = client_environment("http://127.0.0.1:3128", "/state/ca.pem")

    assert list(found) == [variable.name for variable in VARIABLES]
    assert (found["HTTPS_PROXY"], found["SSL_CERT_FILE"]) == ("http://127.0.0.1:3128", "/state/ca.pem")
    assert found["WGETRC"] == "/state/wgetrc"


@pytest.mark.parametrize(
    ("proxy", "host", "port"),
    [
        pytest.param("http://127.0.0.1:3128", "127.0.0.1", "3128", id="IPv4"),
        pytest.param("http://[::1]:3128", "::1", "3128", id="IPv6, without brackets"),
        pytest.param("https://127.0.0.1:3128", "127.0.0.1", "3128", id="TLS to the proxy"),
        pytest.param("http://me:s%40cret@10.0.0.1:80", "10.0.0.1", "80", id="a password stays out"),
    ],
)
def test_java_is_told_host_and_port(proxy: str, host: str, port: str) -> None:
    options = client_environment(proxy, "/state/ca.pem")["JAVA_TOOL_OPTIONS"].split(" ")

    for scheme in ("http", "https"):
        assert f"-D{scheme}.proxyHost={host}" in options
        assert f"-D{scheme}.proxyPort={port}" in options
    assert "-Djavax.net.ssl.trustStore=/state/ca.p12" in options
    assert "cret" not in " ".join(options)


@pytest.mark.parametrize("folder", ["/a b", "/a'b", '/a"b c', "/ab"])
def test_a_path_with_spaces_or_quotes_is_one_option(folder: str) -> None:
    """Read back as the machine does: words at white space, either quote around a whole one."""
    options = client_environment("http://127.0.0.1:3128", f"{folder}/ca.pem")["JAVA_TOOL_OPTIONS"]

    assert f"-Djavax.net.ssl.trustStore={folder}/ca.p12" in shlex.split(options)
