"""`WebAccess`: the one vendor-neutral way to ask for web search and fetch inside a completion (SPEC 6).

Nothing is on by default, and a list or a cap alone declares nothing. What a declaration cannot mean is an error when
it is made, or when a vendor's filter is made of it; nothing is dropped in silence.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from proxy_addons.policy.hosts import HostRules

from .domains import NOTHING_SENT, DomainSet, parse_domain, quote_domains
from .errors import DeclarationError
from .projection import NetRule, Projection, narrow_allowed, project_profile, project_rules

MAX_DOMAINS: Final = 1000
"""Entries of one list; vendors take 64 to 100."""
MAX_USES: Final = 1000


@dataclass(frozen=True, slots=True)
class WebAccess:
    """A declaration. can_search, can_fetch: the switches. cap: `max_uses`, None for none.

    allowed_domains, blocked_domains: see `domains`; no allowed ones: anywhere. rules: the policies that the lists
    were projected from. Vendors read a host name more widely than a policy does, so answers are held to these too.
    """

    can_search: bool = False
    can_fetch: bool = False
    cap: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    rules: tuple[HostRules, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.cap is not None and (type(self.cap) is not int or not 1 <= self.cap <= MAX_USES):
            raise DeclarationError(f"max_uses is a whole number from 1 to {MAX_USES}. {NOTHING_SENT}")
        for name in ("allowed_domains", "blocked_domains"):
            entries = tuple(dict.fromkeys(getattr(self, name)))
            if len(entries) > MAX_DOMAINS:
                raise DeclarationError(f"{name} has more than {MAX_DOMAINS} entries. {NOTHING_SENT}")
            for entry in entries:
                parse_domain(entry)
            object.__setattr__(self, name, entries)

    @classmethod
    def search(cls) -> "WebAccess":
        """Search on, all else off."""
        return cls(can_search=True)

    def with_search(self) -> "WebAccess":
        """The provider may search, too."""
        return replace(self, can_search=True)

    def with_fetch(self) -> "WebAccess":
        """The provider may open a URL for the model, too."""
        return replace(self, can_fetch=True)

    def max_uses(self, count: int) -> "WebAccess":
        """At most so many provider-executed requests, as the vendor understands it."""
        return replace(self, cap=count)

    def allow(self, *domains: str) -> "WebAccess":
        """The vendor may reach these, and no others."""
        return replace(self, allowed_domains=(*self.allowed_domains, *domains))

    def block(self, *domains: str) -> "WebAccess":
        """The vendor may not reach these."""
        return replace(self, blocked_domains=(*self.blocked_domains, *domains))

    def from_policy(self, policy: HostRules | Iterable[NetRule]) -> "WebAccess":
        """Held to a policy too: a profile's host rules, or rules in order. Raises DeclarationError, naming the rule.

        What this allows already is narrowed to what the policy allows, never widened.
        """
        found = project_profile(policy) if isinstance(policy, HostRules) else project_rules(policy)
        return self._narrow(found)

    def held_to(self, policy: HostRules) -> "WebAccess":
        """As `from_policy`; where nothing is asked for, nothing can be declared wrong, and answers alone are held."""
        return self.from_policy(policy) if self.enabled() else replace(self, rules=(*self.rules, policy))

    def _narrow(self, found: Projection) -> "WebAccess":
        return replace(
            self,
            allowed_domains=narrow_allowed(self.allowed_domains, found.allowed, exact=True),
            blocked_domains=(*self.blocked_domains, *found.blocked),
            rules=(*self.rules, found.rules) if found.allowed or found.blocked else self.rules,
        )

    def enabled(self) -> bool:
        """Whether anything is asked for: a boundary around nothing is nothing."""
        return self.can_search or self.can_fetch

    def vendor_filter(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The allow-list and the block-list for a vendor, which takes one of them. Raises DeclarationError.

        Of both, the allow-list stays, without what is blocked: the set that the two describe together.
        """
        if not self.allowed_domains:
            return (), self.blocked_domains
        blocked = [parse_domain(entry) for entry in self.blocked_domains]
        without = DomainSet(blocked)
        kept = [one for one in map(parse_domain, self.allowed_domains) if not without.covers(one)]
        within = DomainSet(kept)
        for below in blocked:
            above = next(within.find_covers(below), None)
            if above is not None:
                raise DeclarationError(
                    f'allowed_domains "{above}" includes its subdomains at every vendor, so blocked_domains "{below}"'
                    f" below it cannot be kept out; allow the hosts that are meant, one by one. {NOTHING_SENT}"
                )
        if not kept:
            raise DeclarationError(
                f"allowed_domains {quote_domains(self.allowed_domains)} without blocked_domains"
                f" {quote_domains(self.blocked_domains)} leaves nothing to allow, and a vendor reads an empty list as"
                f" no filter; allow another host. {NOTHING_SENT}"
            )
        return tuple(map(str, kept)), ()
