"""What agents' clients fetch: a git host, a Python index, an npm registry, a Maven repository, a crate index.

Each is as small as its client takes it, and made here: nothing of it was published anywhere.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.kit import replies
from tests.kit.exchange import Exchange, Route
from tests.kit.origin import Origin

PACKAGE, VERSION = "tiny", "1.0.0"
TAGS = 1500
"""Commits that a clone asks for by name: its request is then longer than git's smallest post buffer, 65,520 bytes."""


# -- git


def make_repository(path: Path) -> None:
    """A bare repository: TAGS commits on one branch, each with a tag."""
    git = ["git", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "--quiet", "--bare", path], check=True)
    lines = []
    for number in range(TAGS):
        lines += [
            "commit refs/heads/main", f"mark :{number + 1}",
            f"committer A <a@a.example> {1_700_000_000 + number} +0000", "data 0",
            "M 100644 inline file.txt", f"data {len(str(number))}", str(number),
            f"reset refs/tags/v{number}", f"from :{number + 1}", "",
        ]  # fmt: skip
    subprocess.run(
        [*git, "-C", path, "fast-import", "--quiet"], input="\n".join(lines) + "\n", text=True, check=True
    )


def git_backend(root: Path) -> Route:
    """git's own server program as CGI (git-http-backend(1)), for repositories below `root`."""

    async def route(exchange: Exchange) -> None:
        request = exchange.request
        path, _, query = request.target.partition("?")
        variables = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.method, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(request.body)),
        }  # fmt: skip
        passed_on = {
            "content-type": "CONTENT_TYPE", "content-encoding": "HTTP_CONTENT_ENCODING",
            "git-protocol": "HTTP_GIT_PROTOCOL",
        }  # fmt: skip
        variables |= {
            variable: value for name, variable in passed_on.items() for value in request.values(name)
        }
        process = await asyncio.create_subprocess_exec(
            "git", "http-backend", env=variables,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await process.communicate(request.body)
        head, _, body = output.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode("ascii").split("\r\n"))
        status = fields.pop("Status", "200 OK")
        await exchange.respond(int(status[:3]), fields.items(), body)

    return route


def serve_git(origin: Origin, name: str, root: Path) -> None:
    """Make repository `name`.git below `root` and serve it."""
    make_repository(root / f"{name}.git")
    for service in ("info/refs", "git-upload-pack", "git-receive-pack"):
        origin.route(f"/{name}.git/{service}", git_backend(root))


# -- packages


def serve_python_index(origin: Origin, files_url: str) -> None:
    """/simple/tiny/ (PEP 503) and the wheel, which its page says is at `files_url`."""
    wheel, file_name = _make_wheel(), f"{PACKAGE}-{VERSION}-py3-none-any.whl"
    digest = hashlib.sha256(wheel).hexdigest()
    page = f'<!DOCTYPE html><a href="{files_url}/packages/{file_name}#sha256={digest}">{file_name}</a>'
    origin.route(f"/simple/{PACKAGE}/", replies.page(page))
    origin.route(f"/packages/{file_name}", replies.answer(200, wheel, "application/octet-stream"))


def _make_wheel() -> bytes:
    """A wheel with one module that says hello."""
    info = f"{PACKAGE}-{VERSION}.dist-info"
    files = {
        f"{PACKAGE}.py": "HELLO = 'hello from the wheel'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_urlsafe(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return written.getvalue()


def _urlsafe(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def serve_npm_registry(origin: Origin, url: str) -> None:
    """/tiny, its archive at `url`, and the audit, which finds nothing."""
    manifest = {"name": PACKAGE, "version": VERSION, "main": "index.js"}
    archive = _make_archive(
        {
            "package/package.json": json.dumps(manifest),
            "package/index.js": "module.exports = 'hello from the package';\n",
        }
    )
    path = f"/{PACKAGE}/-/{PACKAGE}-{VERSION}.tgz"
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    version = {**manifest, "dist": {"tarball": f"{url}{path}", "integrity": integrity}}
    packument = {"name": PACKAGE, "dist-tags": {"latest": VERSION}, "versions": {VERSION: version}}
    origin.route(f"/{PACKAGE}", replies.json(packument))
    origin.route(path, replies.answer(200, archive, "application/octet-stream"))
    origin.route("/-/npm/v1/security/advisories/bulk", replies.json({}))


def serve_crates(origin: Origin, url: str) -> None:
    """A sparse index at /index/ with crate tiny, and its archive at `url`."""
    manifest = f'[package]\nname = "{PACKAGE}"\nversion = "{VERSION}"\nedition = "2021"\n'
    folder = f"{PACKAGE}-{VERSION}"
    crate = _make_archive({f"{folder}/Cargo.toml": manifest, f"{folder}/src/lib.rs": "pub fn hello() {}\n"})
    entry = {
        "name": PACKAGE, "vers": VERSION, "deps": [], "features": {}, "yanked": False,
        "cksum": hashlib.sha256(crate).hexdigest(),
    }  # fmt: skip
    origin.route("/index/config.json", replies.json({"dl": f"{url}/crates/{{crate}}/{{version}}/download"}))
    origin.route("/index/ti/ny/tiny", replies.text(json.dumps(entry) + "\n"))
    origin.route(f"/crates/{PACKAGE}/{VERSION}/download", replies.answer(200, crate, "application/gzip"))


def serve_maven(origin: Origin) -> None:
    """A parent project at /maven2/."""
    path = f"/maven2/example/{PACKAGE}/{VERSION}/{PACKAGE}-{VERSION}.pom"
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>example</groupId><artifactId>{PACKAGE}</artifactId><version>{VERSION}</version>"
        "<packaging>pom</packaging></project>"
    ).encode()
    origin.route(path, replies.answer(200, pom, "text/xml"))
    origin.route(f"{path}.sha1", replies.text(hashlib.sha1(pom, usedforsecurity=False).hexdigest()))


def _make_archive(files: Mapping[str, str]) -> bytes:
    """A tar, gzipped; the same bytes each time."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(written.getvalue(), mtime=0)
