"""Whole pages: from a URL to text for a model, ours beside what one would take instead.

site.py         saved public pages on a TLS origin of their own process
systems.py      the three ways to the text, each a context that fetches a list of URLs
in_process.py   trafilatura's own fetch and extract, in one process
peers.in        what is compared with and is not in our lock; `make bench-peers` installs it beside .venv
measure.py      turns, medians

Every system reads the same pages from the same origin and ends with markdown in the caller's hands.
"""
