"""Policy: values in, verdicts out. Pure; no sockets, files, clocks, logging or randomness.

text ── targets ──► Target ── admission ──► Verdict          (a URL, before anything is contacted)
answers ── addresses ──► AddressDecision                      (both DNS answers, when a connection is made)
3xx ── redirects ──► RedirectDecision                         (every answer of every hop)
body ── codings, metering ──► decoded bytes or an error       (as it streams, in bounded memory)
Verdict ── wire ──► problem document and Fetchd-* fields      (what any client sees)

`limits` holds the profile all of them ask; `verdicts` holds the rule codes all of them speak.
"""
