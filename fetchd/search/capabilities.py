"""What a provider can honour, looked at before anything is sent to it (SPEC 4): nothing is silently dropped."""

from collections.abc import Mapping
from typing import Final

from fetchd.core.failures import FailureKind

from .interface import Argument, Capability, SearchArguments, SearchFailure, Support

UNKNOWN: Final = Capability(Support.REFUSED, "leave it out")
"""For an argument that a provider's table does not speak of."""


def find_refused(
    name: str, capabilities: Mapping[Argument, Capability], arguments: SearchArguments
) -> SearchFailure | None:
    """The refusal of the first argument that is given and cannot be honoured."""
    for argument in given_arguments(arguments):
        capability = capabilities.get(argument, UNKNOWN)
        if capability.support is Support.REFUSED:
            return refuse(name, argument, capability.way_out or UNKNOWN.way_out)
    return None


def refuse(name: str, argument: Argument, way_out: str) -> SearchFailure:
    """A provider's refusal of an argument, or of this value of it."""
    return SearchFailure(FailureKind.BACKEND, f'provider "{name}" cannot honour {argument}; {way_out}')


def given_arguments(arguments: SearchArguments) -> tuple[Argument, ...]:
    """Those that say anything: an empty list filters nothing."""
    return tuple(one for one in Argument if getattr(arguments, one) not in (None, ()))
