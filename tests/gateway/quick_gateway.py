"""A gateway whose fixed limits are short: what no profile may change, a test may, from here alone.

    World(folder, python=quick(CLIENT_HEAD_SECONDS=0.5))

The limits of `policy.limits` are set before anything that reads them is imported.
"""

from __future__ import annotations

import asyncio
import sys

from proxy_addons.policy import limits

MODULE = "tests.gateway.quick_gateway"


def quick(**seconds: float) -> tuple[str, ...]:
    """The interpreter's arguments for a gateway with these limits."""
    unknown = [name for name in seconds if not isinstance(getattr(limits, name, None), float)]
    assert not unknown, unknown
    return ("-m", MODULE, "gateway", *(f"{name}={value}" for name, value in seconds.items()))


def main() -> int:
    """`gateway` is the supervisor, which starts this module again as `worker`."""
    role, *settings = sys.argv[1:]
    for setting in settings:
        name, _, value = setting.partition("=")
        setattr(limits, name, float(value))
    if role == "worker":
        from proxy_addons import gateway

        gateway.main()
        return 0
    from proxy_addons import supervisor
    from proxy_addons.line_input import LineInput

    return asyncio.run(supervisor.serve(LineInput(sys.stdin.fileno()), ("-m", MODULE, "worker", *settings)))


if __name__ == "__main__":
    sys.exit(main())
