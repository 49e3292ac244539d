"""Addresses that the vendor fetches because the request names them: judged as if the agent asked for them itself."""

from proxy_addons.policy.admission import LADDER
from proxy_addons.policy.limits import Profile, WebTools
from proxy_addons.policy.targets import TargetParseError, parse_target
from proxy_addons.policy.verdicts import Rule

from .held import HeldError

CONTENT = "a file or picture given by its address"
MCP_SERVER = "the MCP server"


def check_source(url: object, what: str, profile: Profile) -> None:
    """Raises HeldError unless the profile's ladder, methods aside, lets `url` pass."""
    if not isinstance(url, str):
        raise HeldError(f"the address of {what} cannot be read")
    if profile.web_tools is WebTools.REFUSE:
        raise HeldError(f"{what} would be fetched by the provider, which this profile does not allow")
    try:
        target = parse_target(url)
    except TargetParseError:
        raise HeldError(f"the address of {what} cannot be read") from None
    for check in LADDER:
        if check.rule is not Rule.METHOD and check.breaks(target, "GET", profile):
            raise HeldError(f"{what} would be fetched by the provider: {check.message(target, 'GET')}")


def check_content(url: object, profile: Profile) -> None:
    """The same of content: what brings its bytes along (`data:`, or bare Base64) is no address.

    Bare is what can be no address either: a host has a dot, one way or the other (`//host/`, `%2e`, U+3002).
    """
    if url is None or (isinstance(url, str) and (url[:5].lower() == "data:" or _is_bare(url))):
        return
    check_source(url, CONTENT, profile)


def _is_bare(text: str) -> bool:
    return text.isascii() and not any(mark in text for mark in ".:%\\")
