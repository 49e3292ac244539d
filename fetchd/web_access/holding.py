"""What an answer says is held to the declaration again on our side: vendors leak (SPEC 6).

A row outside is dropped and counted: nothing was said on its account. A citation outside is kept and marked: the
answer drew on it, and hiding that would be worse.
"""

from dataclasses import replace

from proxy_addons.policy.targets import TargetParseError, parse_target

from .declaration import WebAccess
from .domains import DomainSet, parse_domain
from .values import Completion


class Boundary:
    """A declaration's lists, and the policies they were projected from, as a question about a URL."""

    def __init__(self, declaration: WebAccess) -> None:
        self._allowed = DomainSet(map(parse_domain, declaration.allowed_domains))
        self._blocked = DomainSet(map(parse_domain, declaration.blocked_domains))
        self._rules = declaration.rules
        self._open = not (self._allowed or self._blocked or self._rules)

    def holds(self, url: str) -> bool:
        """Whether a URL lies within. One that is no URL of a host lies within nothing that has a boundary."""
        if self._open:
            return True
        try:
            target = parse_target(url)
        except TargetParseError:
            return False
        if target.is_ip_literal or target.scheme not in ("https", "http"):
            return False
        host = target.dns_name
        return (
            (not self._allowed or self._allowed.contains(host))
            and not self._blocked.contains(host)
            and all(rules.admits(target) for rules in self._rules)
        )


def hold_completion(completion: Completion, boundary: Boundary) -> Completion:
    """The same, its rows and citations held to the boundary."""
    rows = tuple(row for row in completion.rows if boundary.holds(row.url))
    return replace(
        completion,
        rows=rows,
        dropped_rows=completion.dropped_rows + len(completion.rows) - len(rows),
        citations=tuple(
            replace(one, outside_declaration=not boundary.holds(one.url)) for one in completion.citations
        ),
    )
