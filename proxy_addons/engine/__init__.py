"""Our deviations from mitmproxy: the host's layers, made a wall. Each names its hole and the test that shows it.

Terms, as in `mitmproxy.proxy`: a layer takes events and yields commands; the handler alone does IO; hooks are how
layers ask addons. A *session* is one client connection, a *hop* one request on it, an *origin* one upstream
connection. A refusal is set on the hop by whoever finds it (`Hop.refuse`) and sent by one place, the stream.

    listener ──► handler ──► next_layer ──► (client TLS) ──► http_layer ──► stream ──► hooks ──► dispatcher ──► addons
                    │                                            │
                    └── loop.create_connection ──► dialer ◄──────┘ only judged addresses (law 4)

| file          | holes it mends (numbers as in docs/mitmproxy-holes.md)                          |
|---------------|---------------------------------------------------------------------------------|
| dispatcher    | a hook that raises lets traffic pass; hook dispatch costs a task each            |
| fail_closed   | the same, hook by hook: what makes a refusal stick                               |
| handler       | N5 unbounded pause queues, N6 h2 windows, layer crashes, deadlines               |
| next_layer    | raw TCP, h2c, TLS in TLS, server-first protocols                                 |
| stream        | N3 h2 trailers, N7 buffered request bodies, N15 a raising stream callable, HTML   |
| framing       | N17 h2 bodies shorter than their Content-Length                                  |
| reuse         | connections lent on to a request that other rules judge                          |
| http_layer    | N10 connections never purged, N11 sticky dial failures, h2→h1 reuse              |
| http1         | N1 unframed bodies, N4 1xx, N14 head size, request targets                       |
| chunked       | N3 trailers, N14 chunk lines, N22 an event for each chunk                        |
| http2         | N16 paths that are no paths, N19 rapid reset, N20 streams that wait, no audit line |
| http2_frames  | N21 frames that move nothing, N23 header blocks that come to nothing               |
| websocket     | N8 unbounded messages                                                            |
| tls           | N13 options that sign with a published key, N18 ClientHello, contexts a handshake |
| client_hello  | a ClientHello whose lengths do not fit, read all the same                        |

`lean` and `lean_layers` mend no hole: they are mitmproxy's own steps, fewer of them.
"""
