"""An index over the audit log, so that a million lines can be filtered while a person waits.

Terms. A *row* is what the page shows in a line: a hop (its decision and close lines joined), a fetch, an event, or a
line of any other kind. A *place* is a file of the log and an offset in it, where a whole line stands.

Direction of data. audit files ─ `tail` ─► lines ─ `entries` ─► rows ─ `writing` ─► SQLite ─ `reading` ─► the page.
All but the last run in a process of their own (`indexer`, kept by `keeper`), so that neither gateway nor daemon waits
for them. The log stays the truth: the index may be removed at any time and is made again; whole lines are read from
the log (`lines`).

`interface` says what the page asks; `memory` is the same over a list, for tests.
"""
