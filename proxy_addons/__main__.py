"""`python -m proxy_addons`: the gateway, told what to do in one JSON line on standard input."""

import asyncio
import logging
import sys

from proxy_addons.line_input import LineInput
from proxy_addons.supervisor import serve

if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    sys.exit(asyncio.run(serve(LineInput(sys.stdin.fileno()))))
