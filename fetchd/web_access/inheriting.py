"""What a sub-run, or an agent, may ask of the web: what its root declared, or less (SPEC 6).

Neither arguments nor a model widen it. What is asked for beyond it is an error and not a smaller thing done in
silence.
"""

from dataclasses import replace

from .declaration import WebAccess
from .domains import NOTHING_SENT
from .errors import DeclarationError
from .projection import narrow_allowed


def inherit(root: WebAccess, asked: WebAccess | None = None) -> WebAccess:
    """The declaration of a run under `root`: the same, or what `asked` narrows it to. Raises DeclarationError."""
    if asked is None:
        return root
    for name, wanted, had in (
        ("search", asked.can_search, root.can_search),
        ("fetch", asked.can_fetch, root.can_fetch),
    ):
        if wanted and not had:
            raise DeclarationError(
                f"web {name} is not among what this run may do; leave {name} off, or have it switched on where the"
                f" run was declared ([web] {name} = true). {NOTHING_SENT}"
            )
    caps = [cap for cap in (root.cap, asked.cap) if cap is not None]
    narrowed = replace(
        asked,
        cap=min(caps, default=None),
        allowed_domains=narrow_allowed(asked.allowed_domains, root.allowed_domains, exact=False),
        blocked_domains=(*root.blocked_domains, *asked.blocked_domains),
        rules=asked.rules,
    )
    # Once more: below a host that a policy allows alone, a list may not name another.
    for rules in root.rules:
        if rules not in narrowed.rules:
            narrowed = narrowed.held_to(rules)
    return narrowed
