"""What a client must have said by when (SPEC 1.7): head 10 s, handshake 10 s, silent tunnel 10 s."""

from mitmproxy import connection, http, tls

from proxy_addons.engine.hops import Sessions
from proxy_addons.policy.limits import CLIENT_HEAD_SECONDS, HANDSHAKE_SECONDS, SILENT_TUNNEL_SECONDS


class Deadlines:
    """Arms and disarms the connection's one deadline as the client advances."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def client_connected(self, client: connection.Client) -> None:
        """A first head is due."""
        self._sessions.of(client).control.arm(CLIENT_HEAD_SECONDS, "no request in time")

    def http_connected(self, flow: http.HTTPFlow) -> None:
        """A tunnel stands: something must come through it."""
        self._sessions.of(flow.client_conn).control.arm(SILENT_TUNNEL_SECONDS, "silent tunnel")

    def tls_clienthello(self, hello: tls.ClientHelloData) -> None:
        """A handshake began."""
        self._sessions.of(hello.context.client).control.arm(
            HANDSHAKE_SECONDS, "TLS handshake not done in time"
        )

    def tls_established_client(self, data: tls.TlsData) -> None:
        """The handshake is done: a head is due."""
        self._sessions.of(data.context.client).control.arm(CLIENT_HEAD_SECONDS, "no request in time")

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A head is here; the hop has its own time limit from now on."""
        self._sessions.of(flow.client_conn).control.disarm()

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """So is a CONNECT."""
        self._sessions.of(flow.client_conn).control.disarm()
