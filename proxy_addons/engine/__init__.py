"""Deviations from mitmproxy, each named after the hole it closes."""
