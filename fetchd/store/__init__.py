"""What is kept of pages read: bodies by digest, records in SQLite, receipts that anyone can check (SPEC 5).

Terms. A *blob* is the body of a page after content-decoding, kept under its digest (``sha256:`` and 64 hex
digits). A *read* is one call that had a page whole; its *record* is a row, its *receipt* signed canonical JSON.
Receipts of an installation form a chain, each naming the hash of the one before, and each names the audit
lines that stand for it. A blob is *receipted* when a kept receipt names it, and *held* while a read that is
under way needs it: neither is evicted.

Direction of data::

    body ──► BlobWriter ──finish──► digest ──claim──► room made, row, hold ──place──► file, fsynced
    facts of the read ──► one transaction: the blob is there? · previous receipt · sign · record and receipt

So a crash leaves at the worst a blob without a receipt, never a receipt without its blob. `pages.PageStore`
keeps that order; use cases and faces speak to it. Below it, `interface` names the two outside things,
`blobs` and `records` are the real ones, `fakes` the scripted ones. `receipts` and `receipt_checks` are pure.
"""

from .interface import BlobReader, Blobs, BlobWriter, Records
from .keys import StoreKeys, load_receipt_key
from .pages import DEFAULT_MAX_BYTES, KeptWriter, PageStore, open_page_store
from .receipts import Receipt
from .values import AuditPosition, Blob, PageRead, RedirectHop, StoredRead, Validators, parse_digest

__all__ = (
    "DEFAULT_MAX_BYTES",
    "AuditPosition",
    "Blob",
    "BlobReader",
    "BlobWriter",
    "Blobs",
    "KeptWriter",
    "PageRead",
    "PageStore",
    "Receipt",
    "Records",
    "RedirectHop",
    "StoreKeys",
    "StoredRead",
    "Validators",
    "load_receipt_key",
    "open_page_store",
    "parse_digest",
)
