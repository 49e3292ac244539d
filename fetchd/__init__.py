"""The daemon: fetches through the gateway and returns what a model may read.

Terms. A *call* is one use of a tool; a *hop* is one request of it, asked of the gateway; a *failure* is what
a caller is told instead of content: *hard*, the call fails with a kind, or *soft*, the call's text is the
message. The *envelope* marks text of third parties.

Direction of data.

    face ── JSON arguments ──► fetch ── URL ──► policy (the gateway's own, asked before any network)
                                 │
                                 ├── hops ──► transport ──► the gateway ──► origin
                                 ├── bytes ──► decoding ──► core.charset ──► extract ──► markdown
                                 └── text ──► core.envelope ──► face;  one line ──► audit

    fetch       the use case web_fetch: one call, from arguments to text
    page_read   the use case page_read: a page whole, kept, bound to its digest by a receipt
    hops        one fetch's hops within one time limit, down to the decoded body; read_hops, a page read's
    decoding    content codings undone beside the event loop, in bounded memory
    core        pure: arguments, every failure message, response rules, charsets, header, envelope
    extract     HTML to markdown, away from the event loop
    store       pages by digest, receipts, records of runs
    search      web_search: arguments, one provider after the other, rows held to the arguments, text
    web_access  completions by vendors that search and fetch for the model: declared, run, recorded
    transport   the way to the gateway; one of two places that know the HTTP client
    channel     the way to search providers and vendors, each by itself; never through the gateway
    connections kept-alive connections to one server, below both ways out
    audit_index the log's lines in a database, for the operator's page; metrics, the numbers of all parts
    explaining  what log and policy say to who asks
    running     what an installation is made of while it runs: processes, listeners, state directory, reload, health
    faces       HTTP API, MCP, command line and the operator's page: they translate, and decide nothing
    app         puts the tools together; installation, everything that `fetchd up` starts
    settings    where configuration and state are found

The daemon has no way to origins of its own but the provider channel, which no agent can steer, and knows nothing of
the gateway but its policy, the wire contract and the audit log.
"""
