"""Names to addresses: one narrow interface (`resolver.Resolver`), a real client and a scripted fake.

    resolver     the Protocol and its values; names answered without asking anybody (RFC 6761)
    dns_client   DnsClient: queries, replies, which server next; the only file that imports `dns`
    exchange     one query and its reply as bytes, over UDP and TCP
    nameservers  which servers are asked: configured, or the system's
    fake         FakeResolver: answers from a table, for tests of what stands above

A resolver says what the DNS says, blocked addresses included; judging is `policy/addresses.py`'s affair.
"""
