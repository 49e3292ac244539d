"""trafilatura by itself: `python -m benchmarks.pages.in_process CA`.

    ["https://127.0.0.10:8443/wcxb/0001", ...]                  (a line in)
    {"done": 48, "seconds": 1.9, "failure": null}               (a line out)

Its own `fetch_url` over a pool that keeps connections, then `extract` to markdown, one page after the other.
Ends with its standard input.
"""

import json
import logging
import sys
import time
from configparser import ConfigParser

import trafilatura
import urllib3
from trafilatura import downloads
from trafilatura.settings import use_config

from benchmarks.extract.systems import extract_trafilatura


def trust(ca: str) -> ConfigParser:
    """Its settings for an origin on loopback: our CA, and no refusal of private addresses."""
    config = use_config()
    config.set("DEFAULT", "SSRF_PROTECTION", "off")
    pool = urllib3.PoolManager(num_pools=50, ca_certs=ca, cert_reqs="CERT_REQUIRED")
    vars(downloads)["HTTP_POOL"] = pool  # as it makes its own, but for the CA
    return config


def fetch_all(urls: list[str], config: ConfigParser) -> dict[str, object]:
    """Every page once; stops at the first that does not come."""
    started, done = time.perf_counter(), 0
    for url in urls:
        html = trafilatura.fetch_url(url, config=config)
        if html is None:
            return {"done": done, "seconds": 0.0, "failure": f"nothing came of {url}"}
        extract_trafilatura(html, url)
        done += 1
    return {"done": done, "seconds": time.perf_counter() - started, "failure": None}


def main() -> None:
    """Answer lists of URLs until the input ends."""
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    config = trust(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(fetch_all(json.loads(line), config)), flush=True)


if __name__ == "__main__":
    main()
