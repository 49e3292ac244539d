"""All routes of the operator's pages, from the parts that the composition root has."""

from collections.abc import Callable
from functools import partial

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from fetchd.faces.operator import has_control_secret
from fetchd.faces.operator_access.access import Access

from .activity import Activity
from .details import Details
from .export import Export
from .live import Live, Pulse
from .log_page import LogPage
from .parts import PageParts
from .sign_in import SignIn
from .static_files import make_static_routes
from .views import Views


def make_pages(access: Access, control_secret: str, parts: PageParts) -> list[BaseRoute]:
    """What `make_operator_app` serves behind the gate, and the sign-in before it."""
    views = Views()
    is_control: Callable[[Request], bool] = partial(has_control_secret, secret=control_secret)
    details, log, export = Details(parts, views), LogPage(parts, views), Export(parts, views)
    return [
        *SignIn(access, views, is_control).routes(),
        *make_static_routes(),
        Route("/", Activity(parts, views).show),
        Route("/fetch/{fetch_id:path}", details.show_fetch),
        Route("/line", details.show_line),
        Route("/log", log.show),
        Route("/log/verify", log.verify, methods=["POST"]),
        Route("/export.csv", export.csv),
        Route("/export.json", export.json),
        Route("/live", Live(parts, views, access, Pulse(parts.index)).stream),
    ]
