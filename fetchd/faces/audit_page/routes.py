"""All routes of the operator's pages, from the parts that the composition root has."""

from collections.abc import Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from fetchd.faces.operator import has_control_secret
from fetchd.faces.operator_access.access import Access

from .sign_in import SignIn
from .static_files import make_static_routes
from .views import Views


def make_pages(access: Access, control_secret: str) -> list[BaseRoute]:
    """What `make_operator_app` serves behind the gate, and the sign-in before it."""
    views = Views()
    is_control: Callable[[Request], bool] = partial(_has_secret, secret=control_secret)

    async def activity(request: Request) -> Response:
        return await views.page(request, "activity.html")

    return [
        *SignIn(access, views, is_control).routes(),
        *make_static_routes(),
        Route("/", activity),
    ]


def _has_secret(request: Request, secret: str) -> bool:
    return has_control_secret(request, secret)
