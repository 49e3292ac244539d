"""The tables of `fetchd.db`, as steps from nothing to today. A released step is never changed: add another.

reads       one row a read, in order; `receipt` is canonical JSON as issued, NULL where the call failed later
blobs       the index of blobs: size, last use, whether a kept receipt needs it, until when a read holds it,
            whether it is about to be removed or to be placed (so that a crash does not look like a loss)
blob_total  one row: how many bytes `blobs` names, kept by triggers, since adding up takes long in a large store

pages         the pages whose text is searched (`page_texts.py`), one row an agent and URL; a page read again has a
              new number, so what is above an index's mark is what it has not seen
page_texts    their titles and texts, each kept once
page_removals numbers of pages that went, by whatever way: what an index has to forget
page_usage    an agent's pages and their bytes, kept by triggers
page_floors   since when an agent of this name is another one: what was asked for, or read, before is not its own
page_epoch    one row: which database this is, for the indexes made of it

runs              completions' runs (`runs.py`), one row each; a run of before these tables has none
steps             a run's completions; provider_calls what was charged for each, more than one where a vendor failed
citations         what a vendor said that a step drew on, once a URL; server_tool_calls its uses of web tools
"""

from typing import Final

_READS_AND_BLOBS: Final = """
CREATE TABLE reads (
    number INTEGER PRIMARY KEY,      -- from 1, in the order of sealing
    id TEXT NOT NULL UNIQUE,         -- the fetch id
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    fetched_at TEXT NOT NULL,        -- RFC 3339, UTC
    url TEXT NOT NULL,               -- display form, as the two below
    url_query TEXT,                  -- keyed digest
    final_url TEXT NOT NULL,
    final_query TEXT,                -- keyed digest
    status INTEGER NOT NULL,
    digest TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    validators BLOB,                 -- encrypted
    receipt TEXT,
    receipt_hash TEXT
);
CREATE INDEX reads_by_page ON reads (agent, final_url, digest);
CREATE INDEX reads_by_digest ON reads (digest, agent);
CREATE TABLE blobs (
    digest TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    last_used INTEGER NOT NULL,      -- ns since 1970
    receipted INTEGER NOT NULL       -- 1: a kept receipt names it
) WITHOUT ROWID;
CREATE INDEX blobs_by_use ON blobs (receipted, last_used);
CREATE TABLE blob_total (bytes INTEGER NOT NULL);
INSERT INTO blob_total VALUES (0);
CREATE TRIGGER blob_added AFTER INSERT ON blobs BEGIN
    UPDATE blob_total SET bytes = bytes + new.bytes;
END;
CREATE TRIGGER blob_removed AFTER DELETE ON blobs BEGIN
    UPDATE blob_total SET bytes = bytes - old.bytes;
END;
CREATE TRIGGER blob_resized AFTER UPDATE OF bytes ON blobs BEGIN
    UPDATE blob_total SET bytes = bytes - old.bytes + new.bytes;
END;
"""

_HOLDS: Final = """
ALTER TABLE blobs ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;  -- ns since 1970
ALTER TABLE blobs ADD COLUMN going INTEGER NOT NULL DEFAULT 0;       -- 1: chosen for eviction
ALTER TABLE blobs ADD COLUMN placed INTEGER NOT NULL DEFAULT 1;      -- 0: claimed, and its file not yet seen there
CREATE INDEX reads_by_agent ON reads (agent, number);
"""

_PAGE_TEXTS: Final = """
CREATE TABLE page_texts (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,     -- of title and text
    title TEXT NOT NULL,
    text BLOB NOT NULL               -- UTF-8, deflated
);
CREATE TABLE pages (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    url TEXT NOT NULL,               -- with its query, without fragment
    read_at INTEGER NOT NULL,        -- ns since 1970, as the two below
    used_at INTEGER NOT NULL,        -- read, or shown as a result
    dated_at INTEGER,                -- what the page says of itself
    language TEXT,                   -- primary subtag, likewise
    text_id INTEGER NOT NULL REFERENCES page_texts (id),
    blob TEXT,                       -- the body it is of, where that is kept: both go together
    bytes INTEGER NOT NULL,
    UNIQUE (agent, url)
);
CREATE INDEX pages_by_agent ON pages (agent, number);
CREATE INDEX pages_by_use ON pages (agent, used_at);
CREATE INDEX pages_by_text ON pages (text_id);
CREATE INDEX pages_by_blob ON pages (blob) WHERE blob IS NOT NULL;
CREATE TABLE page_removals (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    page INTEGER NOT NULL,
    agent TEXT NOT NULL
);
CREATE INDEX page_removals_by_agent ON page_removals (agent, number);
CREATE TABLE page_usage (agent TEXT PRIMARY KEY, pages INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE page_floors (agent TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;  -- ns since 1970
CREATE TABLE page_epoch (epoch TEXT NOT NULL);
INSERT INTO page_epoch VALUES (lower(hex(randomblob(16))));
CREATE TRIGGER page_added AFTER INSERT ON pages BEGIN
    INSERT INTO page_usage VALUES (new.agent, 1, new.bytes)
    ON CONFLICT (agent) DO UPDATE SET pages = pages + 1, bytes = bytes + new.bytes;
END;
CREATE TRIGGER page_removed AFTER DELETE ON pages BEGIN
    UPDATE page_usage SET pages = pages - 1, bytes = bytes - old.bytes WHERE agent = old.agent;
    DELETE FROM page_usage WHERE agent = old.agent AND pages = 0;
    DELETE FROM page_texts WHERE id = old.text_id AND NOT EXISTS (SELECT 1 FROM pages WHERE text_id = old.text_id);
    INSERT INTO page_removals (page, agent) VALUES (old.number, old.agent);
END;
CREATE TRIGGER page_removal_noted AFTER INSERT ON page_removals BEGIN
    DELETE FROM page_removals WHERE number <= new.number - 100000;  -- an index that far behind is made anew
END;
CREATE TRIGGER page_without_blob AFTER DELETE ON blobs BEGIN
    DELETE FROM pages WHERE blob = old.digest;
END;
"""

_RUNS: Final = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,      -- from 1, in the order of beginning
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    parent TEXT,                     -- id of the run it is a sub-run of
    began_at TEXT NOT NULL,          -- RFC 3339, UTC
    ended_at TEXT,                   -- NULL: under way, or its process ended
    status TEXT,
    spent TEXT,                      -- the budget that ended it
    provider TEXT NOT NULL,          -- asked first
    model TEXT NOT NULL,
    declaration TEXT NOT NULL,       -- JSON: what was declared
    prompt_sha256 TEXT NOT NULL
);
CREATE INDEX runs_by_agent ON runs (agent, number);
CREATE TABLE steps (
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    stop TEXT,                       -- NULL: no completion came
    dropped_rows INTEGER NOT NULL,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE provider_calls (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    dialect TEXT NOT NULL,
    at TEXT NOT NULL,
    ms REAL NOT NULL,
    stop_reason TEXT,
    code TEXT,                       -- why it failed
    input_tokens INTEGER,            -- this and the next two: NULL where not reported
    output_tokens INTEGER,
    server_tool_requests INTEGER
);
CREATE INDEX provider_calls_by_run ON provider_calls (run, number);
CREATE TABLE citations (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    url TEXT NOT NULL,
    title TEXT,                      -- this and the next: NULL where not reported
    cited_text TEXT,
    outside_declaration INTEGER NOT NULL,
    UNIQUE (run, step, url)
);
CREATE TABLE server_tool_calls (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    step INTEGER NOT NULL,
    provider TEXT NOT NULL,
    tool TEXT NOT NULL,
    error TEXT                       -- the vendor's own code; NULL: it ran
);
CREATE INDEX server_tool_calls_by_run ON server_tool_calls (run, number);
"""

MIGRATIONS: Final = (_READS_AND_BLOBS, _HOLDS, _PAGE_TEXTS, _RUNS)
