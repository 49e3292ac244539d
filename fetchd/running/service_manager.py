"""What is said to the service manager that started us (sd_notify(3)): a datagram to the socket of NOTIFY_SOCKET.

Without one nobody asked. The socket gone or full is no reason to stop serving, so nothing here raises.
"""

import os
import socket
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"
READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def tell_service_manager(*states: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send assignments, such as ``READY=1``, ``STATUS=…``; whether somebody was there to be told."""
    address = environ.get(VARIABLE, "")
    # A path, or @ for Linux's abstract namespace; anything else, such as vsock, is for machines, not services.
    if not address.startswith(("/", "@")):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.connect("\0" + address[1:] if address[0] == "@" else address)
            sender.send("\n".join(states).encode())
    except OSError:
        return False
    return True
