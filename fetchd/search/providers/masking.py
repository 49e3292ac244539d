"""A provider's credential taken out of whatever it sent back, before anybody sees it. Pure.

As it is, and as the usual writers put it into a URL or into JSON. A provider that means to give it away can always
find another way to write it; this is for those that repeat what they were sent.
"""

from dataclasses import replace
from typing import Final, overload
from urllib.parse import quote

from fetchd.channel import Secret
from fetchd.search.interface import SearchAnswer, SearchFailure, SearchRow

MASK: Final = "[key]"


def _forms(secret: Secret) -> tuple[str, ...]:
    key = secret.reveal()
    return tuple(dict.fromkeys((key, quote(key, safe=""), quote(key), key.replace("/", "\\/"))))


def mask_body(body: bytes, secret: Secret | None) -> bytes:
    """The beginning of a body, before it is cut: a cut could leave most of a credential behind."""
    if secret is None:
        return body
    key = secret.reveal().encode("utf-8")
    masked = body
    for form in _forms(secret):
        masked = masked.replace(form.encode("utf-8"), MASK.encode("ascii"))
    # The read itself may have ended inside one.
    for length in range(min(len(key) - 1, len(masked)), 3, -1):
        if masked.endswith(key[:length]):
            return masked[:-length]
    return masked


@overload
def mask(outcome: SearchFailure, secret: Secret | None) -> SearchFailure: ...
@overload
def mask(outcome: SearchAnswer | SearchFailure, secret: Secret | None) -> SearchAnswer | SearchFailure: ...
def mask(outcome: SearchAnswer | SearchFailure, secret: Secret | None) -> SearchAnswer | SearchFailure:
    """The outcome without the credential, in whatever escapes its JSON had hidden it."""
    if secret is None:
        return outcome
    forms = _forms(secret)

    def hide(text: str) -> str:
        for form in forms:
            text = text.replace(form, MASK)
        return text

    if isinstance(outcome, SearchFailure):
        logged = None if outcome.logged is None else hide(outcome.logged)
        return replace(outcome, message=hide(outcome.message), logged=logged)
    rows = tuple(
        SearchRow(
            hide(row.url),
            hide(row.title),
            hide(row.description),
            None if row.age is None else hide(row.age),
            None if row.site_name is None else hide(row.site_name),
            tuple(map(hide, row.extra_snippets)),
        )
        for row in outcome.rows
    )
    return replace(outcome, rows=rows)
