"""The tables of the index. There are no migrations: a file of another version is removed and made again.

names    every agent, host, verdict, rule, kind, chain and method once; rows hold their numbers (0: none)
files    how far each file of the log was taken in
rows     one row each; `file`, `start`: where its first line stands; `close_file`, `close_start`: its close line
tally    rows by minute, kind, agent, verdict and rule: what charts add up; `hours` the same by hour, for long times
state    one row: lines taken in, rows there are, and the revision that changes with every change
"""

from typing import Final

VERSION: Final = 3
APPLICATION_ID: Final = 0x66616964
"""``faid``: whose file this is."""

SCHEMA: Final = f"""
CREATE TABLE names (
    id INTEGER PRIMARY KEY,
    what TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (what, text)
);
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    chain TEXT NOT NULL,
    number INTEGER NOT NULL,
    mark TEXT NOT NULL,              -- digest of its first line: whether it is still the same file
    done INTEGER NOT NULL,           -- bytes taken in
    time INTEGER NOT NULL,           -- of the last line
    UNIQUE (chain, number)
);
CREATE TABLE rows (
    number INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,           -- microseconds since 1970
    chain INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    agent INTEGER NOT NULL,
    host INTEGER NOT NULL,
    verdict INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    method INTEGER NOT NULL,
    status INTEGER,
    bytes INTEGER,
    ms REAL,
    file INTEGER NOT NULL,
    start INTEGER NOT NULL,
    close_file INTEGER,
    close_start INTEGER,
    fetch_id TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
);
-- Each holds what filters look at, so that rows which do not match are never read.
CREATE INDEX by_time ON rows (time, agent, host, verdict, rule, kind, bytes);
CREATE INDEX by_agent ON rows (agent, time, host, verdict, rule, kind, bytes);
CREATE INDEX by_host ON rows (host, time, agent, verdict, rule, kind, bytes);
CREATE INDEX by_rule ON rows (rule, time, agent, host, verdict, kind, bytes) WHERE rule > 0;
CREATE INDEX by_line ON rows (chain, seq);
CREATE INDEX by_fetch ON rows (fetch_id) WHERE fetch_id > '';
CREATE TABLE tally (
    slot INTEGER NOT NULL,           -- minutes since 1970
    kind INTEGER NOT NULL,
    agent INTEGER NOT NULL,
    verdict INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    PRIMARY KEY (slot, kind, agent, verdict, rule)
) WITHOUT ROWID;
CREATE TABLE hours (
    slot INTEGER NOT NULL,           -- minutes since 1970, of the hour's beginning
    kind INTEGER NOT NULL,
    agent INTEGER NOT NULL,
    verdict INTEGER NOT NULL,
    rule INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    PRIMARY KEY (slot, kind, agent, verdict, rule)
) WITHOUT ROWID;
CREATE TABLE state (lines INTEGER NOT NULL, rows INTEGER NOT NULL, revision INTEGER NOT NULL);
INSERT INTO state VALUES (0, 0, 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""  # noqa: S608 (two numbers of ours)
