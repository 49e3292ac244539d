"""Web search and fetch that a vendor runs inside a completion (SPEC 6): declared here, recorded here, executed there.

Terms. A *declaration* (`WebAccess`) says what a run asks for; a *vendor* answers; a *dialect* is one shape of asking
it (`proxy_addons.policy.vendors`); a *completion* is one request and its answer; a *step* is one completion of a run,
whoever of the vendors gave it in the end. A *citation* is what the vendor said that it drew on, and nothing more.

Direction of data::

    config, flags, request ──► WebAccess ──projection (a profile's host rules)──► WebAccess
    WebAccess + dialect ──preparing──► Filter, or a refusal and nothing is sent
    Filter + Conversation ──dialects.render──► body and fields ──channel──► vendor
    bytes ──sse, assembling──► one JSON answer ──dialects.parse──► Completion ──holding──► held to the lists

    values       pure: what all the others speak of
    declaration  pure: WebAccess, its builder, vendor_filter
    domains      pure: entries of the lists
    projection   pure: host rules of a policy to the lists of a declaration
    inheriting   pure: what a sub-run, or an agent, may ask of what its root declared
    preparing    pure: a declaration held to what a dialect can carry
    dialects     pure: render and parse, a file for each shape
    sse          pure: bytes of an event stream to events
    holding      pure: what an answer says is held to the declaration again
    requests     pure: what is asked of `ask`       quoting   pure: whether a quote stands on a page
    vendor       one vendor over its channel        links     channels and keys of all of them
    running      the loop                           recording, audit_log   who is told of it
    asking       the use case                       composition            what stands behind it
"""
