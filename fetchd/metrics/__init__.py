"""The installation's numbers: those of the gateway's workers and of the daemon as one, for Prometheus and OTLP.

    gateway workers ── lines of JSON ──► supervisor ── a line ──► collecting ──► exposition   GET /metrics
    daemon's tools  ── daemon (Tallies) ────────────────────────────┘        └─► otlp         a collector of one's own

`proxy_addons.policy.metrics` has a row for each metric; nothing else is told.
"""
