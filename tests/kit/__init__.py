"""The loopback test kit: real servers and clients on 127.0.0.0/8 and ::1, scripted by the test.

    dns       ScriptedDns: a DNS server (UDP and TCP, one port) whose every answer is written by the test
    origin    Origin: an HTTP server (h1, h1 over TLS, h2 over TLS) recording each connection
    replies   ready-made routes: pages, redirects, encodings, endless, trickled and broken bodies
    bodies    content codings and bombs as bytes
    mark      what an origin was asked from some moment on
    browser   a real browser over a page: what it loads, says and shows
    authorities   authorities as operators bring them, right and wrong
    pki       a private CA; contexts for good, wrong-name, expired and self-signed servers
    gateway   a real gateway process and the usual stage around it
    installed `fetchd up` and other commands as processes
    namespaces hosts that are network namespaces, with the wires between them
    processes what a process started, and waiting for its end
    counting  how much work something is, in calls of functions
    crashing  programs that die in the midst of their work, between any two system calls
    toml      a configuration file from values
    client    what an agent does to a proxy, byte by byte: CONNECT, TLS in the tunnel, absolute form, h2
    listener  CountingListener (how many connects reached this address?) and BlackHole (connects never finish)
    ports     free ports, also one port free on several addresses
    vendors   vendors of models as routes for Origin
    vendor_answers   what vendors of completions answer that ran web tools, whole and as streams
    vendor_server    one that answers so
    corpora   where the public conformance data lies
    tools     outside programs a test needs: missing is a skip line, or a failure where required
    sync      Gate, Watch and LoopThread: waiting for facts, never for time

Every server runs in a thread with its own event loop, so it also serves a gateway in another process. Servers
are context managers, usable with `with` and `async with`. Waits are bounded only so that a broken test ends.
"""
