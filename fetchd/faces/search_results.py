"""A finished search as JSON, the same on HTTP and the command line (SPEC 3, 4).

Beside the text that a model reads stand the rows' URLs once more, each with what the gateway would say of it to this
caller: the policy alone is asked, and nothing is contacted.
"""

from fetchd.core.caller import Caller
from fetchd.search.searching import SearchResult
from proxy_addons.policy.admission import decide_url
from proxy_addons.policy.limits import Profile

from .results import KIND_STATUSES, TITLES, TRUST

METHOD = "GET"


def render_search(result: SearchResult, caller: Caller) -> dict[str, object]:
    """The object of a search that was answered."""
    return {
        "text": result.text,
        "trust": TRUST,
        "failure": None,
        "rule": None,
        "provider": result.provider,
        "dropped": result.dropped,
        "urls": [vet_url(row.url, caller.profile) for row in result.rows],
        "fetch_id": result.fetch_id,
    }


def vet_url(url: str, profile: Profile) -> dict[str, object]:
    """Whether the gateway would let a fetch of this URL begin, and the rule that would stop it."""
    verdict = decide_url(url, METHOD, profile).verdict
    return {
        "url": url,
        "admitted": not verdict.refused,
        "rule": verdict.rule.value if verdict.rule is not None else None,
    }


def render_search_problem(result: SearchResult) -> dict[str, object]:
    """The problem document (RFC 9457) of a search that failed."""
    failure = result.failure
    if failure is None:
        raise ValueError("a search that was answered is no problem")
    return {
        "type": f"urn:fetchd:failure:{failure.kind}",
        "title": TITLES[failure.kind],
        "status": KIND_STATUSES[failure.kind],
        "detail": result.text,
        "kind": failure.kind.value,
        "failure": "hard",
        "rule": None,
        "provider": result.provider,
        "fetch_id": result.fetch_id,
    }
