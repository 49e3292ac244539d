"""web_search (SPEC 4): arguments in, one provider asked over its own channel, rows out.

Terms. A *provider* answers searches: a public API, another fetchd, the local index, a vendor's completion. A *row* is
one result. A *capability* says how a provider honours one argument.

Direction of data. JSON ──arguments──► SearchArguments ──capabilities──► provider ──► SearchAnswer ──results──► text
"""
