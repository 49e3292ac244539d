"""The remote search providers.

dialect    what a provider is: a name, a row of capabilities, pure functions for its request and its answers
shapes     JSON of another party to values, or a reason that repeats none of its text
errors     bodies of error answers as one line that can be shown
gateway, brave, searxng, tavily    the dialects, a file each
asking     the one transport: deadline, sizes, waiting when told to, the key masked
opening    the providers that a configuration names
"""
