"""The remote search providers: each a dialect, all asked by one transport.

Direction of data: arguments, a dialect's request, the channel, a dialect's reading of the answer, rows.

    dialect    what a provider is: a name, a row of capabilities, pure functions for its request and its answers
    gateway    brave, searxng, tavily: the dialects, a file each; countries: tables of two of them
    shapes     JSON of another party to values, or a reason that repeats none of its text
    errors     bodies of error answers as one line that can be shown
    masking    the key taken out of what a provider sends back
    asking     the transport: deadline, sizes, waiting when told to
    opening    the providers that a configuration names
"""
