"""Our style sheet and script: a fixed list, read once, for everybody (they say nothing)."""

from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fetchd.faces.operator_paths import STATIC_PATH

from .views import FIELDS, FOLDER

FILES: Final = {"page.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}


def make_static_routes() -> list[Route]:
    """A route for each file."""
    return [_route(name, media_type) for name, media_type in FILES.items()]


def _route(name: str, media_type: str) -> Route:
    content = (FOLDER / "static" / name).read_bytes()
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    fields = {**FIELDS, "Cache-Control": "no-cache", "ETag": tag}

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=fields)
        return Response(content, 200, fields, media_type)

    return Route(f"{STATIC_PATH}/{name}", serve)
