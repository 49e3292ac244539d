"""Both steps of the dialer in one, as the hooks of a worker take them one after the other."""

import socket

from proxy_addons.dial import Dialer, DialReport
from proxy_addons.policy.limits import Profile


async def judge_and_connect(
    dialer: Dialer, host: str, port: int, profile: Profile
) -> tuple[socket.socket, DialReport]:
    """Raises as `Dialer.connect` does."""
    return await dialer.connect(await dialer.judge(host, port, profile), profile)
