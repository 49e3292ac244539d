"""The pure half of the daemon: values in, values out. No sockets, clocks, threads or randomness.

call ── arguments ──► FetchArguments                    (or a hard failure)
answer ── gateway_answers ──► origin's answer | failure (whose answer is it, and does it stop the fetch?)
head ── response ──► BodyPlan                           (SPEC 2.1, rows 1 to 4: before a body byte)
bytes ── charset ──► text ── windows ──► shown part     (SPEC 2.1 row 6; characters, not bytes)
text ── header, envelope ──► what a model reads         (SPEC 2, 3)

`failures` holds every message that can reach a caller.
"""
