"""What `fetchd ca` prints."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from .config_cli import render_columns

if TYPE_CHECKING:
    from certs.chain import PublicAuthority

INSTALL: Final = (
    ("curl", "curl --cacert $CA, or CURL_CA_BUNDLE=$CA"),
    ("Python ssl, httpx, aiohttp", "SSL_CERT_FILE=$CA"),
    ("Python requests", "REQUESTS_CA_BUNDLE=$CA"),
    ("pip", "PIP_CERT=$CA"),
    ("Node.js", "NODE_EXTRA_CA_CERTS=$CA"),
    ("git", "GIT_SSL_CAINFO=$CA"),
    ("Go, OpenSSL programs", "SSL_CERT_FILE=$CA"),
    ("Java", "fetchd ca export --format p12 --out trust.p12, then -Djavax.net.ssl.trustStore=trust.p12"),
    (
        "Debian, Ubuntu container",
        "copy to /usr/local/share/ca-certificates/fetchd.crt, run update-ca-certificates",
    ),
    ("Fedora, RHEL container", "copy to /etc/pki/ca-trust/source/anchors/fetchd.pem, run update-ca-trust"),
)
"""Where clients take an authority from; `certs/README.md` has the same table."""


def describe(authority: "PublicAuthority") -> Mapping[str, object]:
    """The facts of an authority for programs; those of what clients trust, its root."""
    from certs.chain import fingerprint, render_name

    return {
        "subject": render_name(authority.root),
        "sha256": fingerprint(authority.root),
        "not_before": authority.root.not_valid_before_utc.isoformat(),
        "not_after": authority.root.not_valid_after_utc.isoformat(),
        "signs_with": [
            {
                "subject": render_name(each),
                "sha256": fingerprint(each),
                "not_after": each.not_valid_after_utc.isoformat(),
            }
            for each in authority.chain
        ],
    }


def render_show(
    current: "PublicAuthority",
    coming: "PublicAuthority | None",
    path: Path,
    source: str,
    notes: tuple[str, ...],
) -> str:
    """What `ca show` prints. path: what clients are given; source: where the key is."""
    from certs.chain import render_name

    rows = [("path", str(path)), *_rows(current), ("key", source)]
    if len(current.chain) > 1:
        rows.append(("signs with", f"{render_name(current.certificate)}, shown to clients with its issuers"))
    if coming is not None:
        rows += [
            (
                "next",
                "prepared; once every client has the file above: fetchd stop, fetchd ca rotate, fetchd up",
            )
        ]
        rows += [(f"  {label}", text) for label, text in _rows(coming)]
    rows += [("note", note) for note in notes]
    if not _holds(path, current):
        rows.append(("note", f"{path} does not hold this yet; the next start of fetchd writes it"))
    install = render_columns([("client", "with CA=" + quote(str(path))), *INSTALL])
    return f"{render_columns(rows)}\n\nWhere clients take it from (fetchd env prints the variables):\n\n{install}"


def _holds(path: Path, authority: "PublicAuthority") -> bool:
    try:
        return authority.root_pem in path.read_bytes()
    except OSError:
        return False


def _rows(authority: "PublicAuthority") -> list[tuple[str, str]]:
    root = authority.root
    from certs.chain import fingerprint, render_name

    return [
        ("subject", render_name(root)),
        ("sha256", fingerprint(root)),
        ("valid", f"{root.not_valid_before_utc:%Y-%m-%d} to {root.not_valid_after_utc:%Y-%m-%d}"),
    ]
