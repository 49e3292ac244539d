"""`make demo`: a small site of our own, the real gateway and daemon, pages fetched and attacks refused.

site      the origin (TLS), the names (scripted DNS) and the configuration
running   clients of both faces of a `fetchd up`
steps     what is tried, and what must come of it
"""
