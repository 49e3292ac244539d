"""The provider channel: how the daemon reaches search providers and vendors, and nobody else.

Its own client, its own host list, TLS always verified, no proxy settings, no redirects; never the gateway's fetch
path. Agents have no way to add a host, a parameter or a credential.
"""
