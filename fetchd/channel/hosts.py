"""Which host a channel may speak to: exactly the one its operator wrote down. Pure.

    https://search.example          https://search.example:8443/base       http://127.0.0.1:8888, http://localhost:8888
    http://search.example  refused: plain http leaves this machine in the clear
    https://user:key@search.example/?key=1#a  refused: a credential has its own place, and an endpoint has no query

Scheme, host and port are compared after the one WHATWG parse, so that no spelling of a URL reaches another host.
"""

from dataclasses import dataclass

from fetchd.errors import ChannelError
from proxy_addons.policy.config_search import is_loopback
from proxy_addons.policy.targets import Target, TargetParseError, parse_target


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider is: `origin` (scheme://host:port) and a base path without its last slash."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def base(self) -> str:
        """What paths of the provider's interface are written after."""
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"

    def admits(self, target: Target) -> bool:
        """Whether a URL is of this very scheme, host and port."""
        return (target.scheme, target.host, target.port) == (self.scheme, self.host, self.port)


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint an operator wrote; raises ChannelError with what is wrong, which never repeats the text."""
    try:
        target = parse_target(text)
    except TargetParseError:
        raise ChannelError("is no absolute URL; write one such as https://search.example") from None
    if target.scheme not in ("https", "http"):
        raise ChannelError("has another scheme than https")
    if target.has_credentials:
        raise ChannelError("holds a user name or password; a key belongs in its own variable or file")
    if "?" in text or "#" in text:
        raise ChannelError("has a query or a fragment; write scheme, host, port and base path alone")
    if not target.host or target.port is None:
        raise ChannelError("names no host")
    if target.scheme == "http" and not is_loopback(target):
        raise ChannelError("is plain http to another machine; write https")
    return Endpoint(target.scheme, target.host, target.port, target.path.rstrip("/"))
