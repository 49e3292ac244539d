"""The gateway: a forward proxy that judges every hop of every client.

    supervisor   N workers on one port, restarted when dead, told everything on standard input
    gateway      one worker: the composition root
    policy       pure: URLs, addresses, redirects, bodies and the wire; values in, verdicts out
    engine       mitmproxy's layers made a wall; where hooks fail closed and refusals become answers
    addons       one job each, in one literal order
    resolve      names to answers, nothing cached, nothing but the configured nameservers
    dial         answers to one connection, judged when it is made: the only way out
    chains       which hop of a redirect chain a request is; budgets, what an agent has spent: shared by all workers
    meters       what a worker counts, told to the supervisor, added up
    audit        one line a decision before any byte goes out, chained and signed

A request goes down engine and addons to dial; its verdict, from wherever it is found, comes back up as one answer.
"""
