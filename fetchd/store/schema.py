"""The tables of `fetchd.db`, as steps from nothing to today. A released step is never changed: add another.

reads       one row a read, in order; `receipt` is canonical JSON as issued, NULL where the call failed later
blobs       the index of blobs: size, last use, whether a kept receipt needs it, until when a read holds it,
            whether it is about to be removed or to be placed (so that a crash does not look like a loss)
blob_total  one row: how many bytes `blobs` names, kept by triggers, since adding up takes long in a large store
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

MIGRATIONS: Final = (_READS_AND_BLOBS, _HOLDS)
