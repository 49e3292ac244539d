"""The provider channel: how the daemon reaches search providers and vendors, and nobody else.

Its own client, its own host list, TLS always verified, no proxy settings, no redirects; never the gateway's fetch
path. Agents have no way to add a host, a parameter or a credential.

    hosts     which URL is the provider's      fields   the head of a request, credential included
    secrets   a credential, from where it is kept to `Secret`
    client    requests on the wire             network  names and connections below it
    fake      the scripted one, for tests
"""

from .hosts import Endpoint, parse_endpoint
from .interface import Channel, ChannelAnswer, ChannelRequest, Secret

__all__ = ["Channel", "ChannelAnswer", "ChannelRequest", "Endpoint", "Secret", "parse_endpoint"]
