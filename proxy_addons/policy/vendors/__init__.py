"""Web access that a vendor of models executes for the model: what is known of it, and how it is held (SPEC 6).

Pure, as all of `policy`; the gateway holds agents' own calls to these tables, the daemon renders its own by them.

    dialects    what each shape of asking for the web can say
    endpoints   which requests to a vendor's host carry a model's request; its hosts
    tools       what such a request may hold: members, tools, models
    holding     a request under a profile: what may leave, or why nothing does
    narrowing   one web tool's entry      domains   host rules and lists to one list      sources   addresses to fetch
    containers  what runs at the vendor with or without a network
    json_text   JSON read strictly, changed without touching the rest
    errors      a refusal in the vendor's words
    answers     an answer read as it passes      answer_facts  what it says of the web tools that were run
"""
