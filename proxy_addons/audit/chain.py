"""The hash chain: how a line is sealed, and what makes a line break it. Pure: bytes in, values out.

A line is one JSON object in ASCII, a newline at its end::

    {"kind":…,"chain":…,"seq":7,"time":…,"prev":"<hash of line 6>",…,"hash":"<64 hex>"}

- ``hash`` is SHA-256 over the line's own bytes without its hash member: without the newline, and with the
  trailing ``,"hash":"…"}`` put back to ``}``. No canonical form is needed: what is hashed is what stands in
  the file.
- ``prev`` is the hash of the line before, 64 zeros before the first. ``seq`` counts from 1 without a gap.
- A checkpoint line carries ``signature`` just before ``hash``: Ed25519 (RFC 8032), base64, over the line's
  bytes without both members. As the signed bytes hold seq and prev, a checkpoint vouches for every line
  before it.
- A checkpoint with reason ``pruned`` says in ``through`` (``SEQ:HASH``) up to which line the writer itself has
  removed the chain.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from proxy_addons.audit.kinds import LineKind
from proxy_addons.audit.line_text import render_members
from proxy_addons.audit.record import Record

GENESIS = "0" * 64
MAX_LINE = 1 << 20
"""Bytes; no record comes near it (each text is cut), so a longer line is not ours."""

type SignFunction = Callable[[bytes], bytes]
type SignatureCheck = Callable[[bytes, bytes], bool]
"""(signature, signed bytes) → does it hold."""


class Check(StrEnum):
    """What fails about a line, a file or a chain; in the order in which a line is looked at."""

    TORN = "torn"
    JSON = "json"
    FORM = "form"
    HASH = "hash"
    CHAIN = "chain"
    SEQ = "seq"
    PREV = "prev"
    SIGNATURE = "signature"
    FILE = "file"
    HEAD = "head"
    TAIL = "tail"


class CheckpointReason(StrEnum):
    """Why a checkpoint was written."""

    START = "start"
    LINES = "lines"
    TIME = "time"
    ROTATION = "rotation"
    STOP = "stop"
    PRUNED = "pruned"


@dataclass(frozen=True, slots=True)
class Head:
    """A place in a chain: number and hash of a line. ``Head(0, GENESIS)`` is the place before the first."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


START = Head(0, GENESIS)


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is whole in itself: its hash fits. `signed` and `signature` are set for checkpoints.

    `through`: for one with reason ``pruned``, the last line that was removed.
    """

    kind: str
    chain: str
    seq: int
    time: str
    prev: str
    hash: str
    key: str | None
    signature: bytes | None
    signed: bytes | None
    through: Head | None = None

    @property
    def head(self) -> Head:
        return Head(self.seq, self.hash)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a line, in words for a person."""

    check: Check
    detail: str


def parse_head(text: str) -> Head:
    """``SEQ:HASH`` → Head. Raises ValueError that says which form is expected."""
    match = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not SEQ:HASH (a line number from 1 and 64 lower-case hex digits)")
    return Head(int(match[1]), match[2])


def seal_line(chain: str, head: Head, time: str, record: Record) -> tuple[bytes, Head]:
    """The line for `record` that follows `head`, and the head it makes."""
    return _seal(_open(chain, head, time, record.kind, record.render_text()), head)


def seal_checkpoint(
    chain: str, head: Head, time: str, reason: CheckpointReason, key_id: str, sign: SignFunction,
    through: Head | None = None,
) -> tuple[bytes, Head]:  # fmt: skip
    """The checkpoint line that follows `head` and vouches for everything up to it, and the head it makes.

    through: what goes from the chain, for reason PRUNED.
    """
    removed = {} if through is None else {"through": str(through)}
    members = render_members({"reason": reason.value, **removed, "key": key_id})
    text = _open(chain, head, time, LineKind.CHECKPOINT, members)
    signature = base64.b64encode(sign(f"{text}}}".encode())).decode()
    return _seal(f'{text},"signature":"{signature}"', head)


def _open(chain: str, head: Head, time: str, kind: LineKind, members: str) -> str:
    return f'{{"kind":"{kind}","chain":"{chain}","seq":{head.seq + 1},"time":"{time}","prev":"{head.hash}",{members}'


def _seal(text: str, head: Head) -> tuple[bytes, Head]:
    body = text.encode()
    digest = sha256(body + b"}").hexdigest()
    return b'%b,"hash":"%b"}\n' % (body, digest.encode()), Head(head.seq + 1, digest)


_PREFIX = re.compile(
    rb'\{"kind":"([a-z]{1,16})","chain":"([a-z0-9-]{1,64})","seq":([0-9]{1,18}),'
    rb'"time":"([0-9TZ:.+-]{1,40})","prev":"([0-9a-f]{64})",'
)
_SUFFIX = re.compile(rb',"hash":"([0-9a-f]{64})"\}\n')
_SUFFIX_LENGTH = len(',"hash":""}\n') + 64
_THROUGH = re.compile(
    rb',"reason":"pruned","through":"([1-9][0-9]{0,17}:[0-9a-f]{64})","key":"[0-9a-f]{1,64}","signature":'
)
_SIGNATURE = re.compile(rb',"key":"([0-9a-f]{1,64})","signature":"([A-Za-z0-9+/=]{1,200})"\Z')


def parse_line(raw: bytes, *, check_json: bool = True) -> Line | Fault:
    """A line, newline included, → Line when it is whole in itself, else what fails first.

    `check_json=False` leaves out the JSON parser; form and hash are looked at all the same.
    """
    if not raw.endswith(b"\n"):
        return Fault(Check.TORN, f"{len(raw)} bytes without a newline at the end")
    if len(raw) > MAX_LINE:
        return Fault(Check.FORM, f"longer than {MAX_LINE} bytes")
    if check_json and (fault := _check_json(raw)):
        return fault
    prefix, suffix = _PREFIX.match(raw), _SUFFIX.fullmatch(raw, max(0, len(raw) - _SUFFIX_LENGTH))
    if prefix is None or suffix is None or prefix.end() > suffix.start():
        return Fault(Check.FORM, "it does not begin with kind, chain, seq, time, prev and end with hash")
    body = raw[: suffix.start()]
    digest = sha256(body + b"}").hexdigest()
    if digest != suffix[1].decode():
        return Fault(Check.HASH, "its hash does not fit its text; one of the two was changed")
    kind, chain, seq, time, prev = (part.decode() for part in prefix.groups())
    key = signature = signed = through = None
    if kind == LineKind.CHECKPOINT and (found := _SIGNATURE.search(body)):
        key, signed = found[1].decode(), body[: found.start(2) - len(',"signature":"')] + b"}"
        try:
            signature = base64.b64decode(found[2], validate=True)
        except binascii.Error:
            signature = None
        if pruned := _THROUGH.search(body):
            through = parse_head(pruned[1].decode())
    return Line(kind, chain, int(seq), time, prev, digest, key, signature, signed, through)


def _check_json(raw: bytes) -> Fault | None:
    try:
        value = json.loads(raw.decode("ascii"))
    except (ValueError, RecursionError) as error:
        return Fault(Check.JSON, f"not JSON in ASCII: {type(error).__name__}")
    return None if isinstance(value, dict) else Fault(Check.JSON, "not a JSON object")


def check_signature(line: Line, keys: Mapping[str, SignatureCheck]) -> Fault | None:
    """Does the signature of checkpoint `line` hold under the key it names? `keys`: key id → check."""
    if line.key is None or line.signature is None or line.signed is None:
        return Fault(Check.SIGNATURE, "the checkpoint has no readable signature")
    if line.key not in keys:
        return Fault(Check.SIGNATURE, f"the checkpoint is signed with a key that is not at hand: {line.key}")
    if not keys[line.key](line.signature, line.signed):
        return Fault(
            Check.SIGNATURE,
            "the signature does not hold; this line or those before it are not what was signed",
        )
    return None


class ChainWalker:
    """Takes the lines of one chain in order and says what breaks it.

    After a fault it goes on from the next line that is whole in itself and whose number is not behind it, so
    that later faults are found too. `head` is the last such line, `expected` the head the next line must
    follow (None: any).
    """

    def __init__(
        self,
        chain: str,
        keys: Mapping[str, SignatureCheck],
        *,
        expected: Head | None = START,
        check_json: bool = True,
    ) -> None:
        self._chain = chain
        self._keys = keys
        self._check_json = check_json
        self.expected = expected
        self.head = expected or START
        self.checkpoint_seq = 0

    def accept(self, raw: bytes) -> tuple[Line | None, Fault | None]:
        """One line, newline included → (the line when it is taken for the next, what is wrong with it)."""
        line = parse_line(raw, check_json=self._check_json)
        if isinstance(line, Fault):
            self.expected = None
            return None, line
        fault = self._check_link(line)
        if fault is None and line.kind == LineKind.CHECKPOINT:
            fault = check_signature(line, self._keys)
            if fault is None:
                self.checkpoint_seq = line.seq
        if line.chain != self._chain or (self.expected and line.seq <= self.expected.seq):
            return None, fault
        self.expected = self.head = line.head
        return line, fault

    def _check_link(self, line: Line) -> Fault | None:
        if line.chain != self._chain:
            return Fault(Check.CHAIN, f"it belongs to chain {line.chain}")
        if self.expected is None:
            return None
        wanted = self.expected.seq + 1
        if line.seq > wanted:
            return Fault(
                Check.SEQ,
                f"seq {line.seq} where {wanted} is due; lines {wanted} to {line.seq - 1} are missing",
            )
        if line.seq < wanted:
            return Fault(Check.SEQ, f"seq {line.seq} where {wanted} is due; a line was repeated or moved")
        if line.prev != self.expected.hash:
            return Fault(
                Check.PREV, "its prev is not the hash of the line before; one of the two was replaced"
            )
        return None
