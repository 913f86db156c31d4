"""Streamlit's page arrives with the styles; every other answer is passed on."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dashboard.web.edge import LOOK, FirstPaint

PAGE = '<html><head></head><body><div id="root"></div></body></html>'
BROWSER = {"accept": "text/html,*/*;q=0.8"}
SCRIPTS = ("Html.A1.js", "BidiComponent.B2.js", "PlotlyChart.C3.js")


async def page(request: Request) -> Response:
    if "if-none-match" in request.headers:
        return Response(status_code=304)
    return HTMLResponse(PAGE, headers={"etag": '"of-streamlit"'})


async def report(request: Request) -> Response:
    return HTMLResponse("<html><body>a report</body></html>", headers={"seen": request.headers.get("range", "")})


def get(path: str, headers: Mapping[str, str]) -> httpx2.Response:
    app = FirstPaint(Starlette(routes=[Route("/report", report), Route("/{any}", page)]), PAGE, SCRIPTS)

    async def ask() -> httpx2.Response:
        transport: Any = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, headers={"accept-encoding": "identity", **headers})

    return asyncio.run(ask())


@pytest.mark.parametrize("encoding", ["identity", "gzip, br"])
def test_the_page_has_the_styles_and_preloads_what_every_page_needs(encoding: str) -> None:
    answer = get("/findings", {**BROWSER, "accept-encoding": encoding})

    assert f'<body><link rel="modulepreload" crossorigin href="./static/js/{SCRIPTS[0]}">' in answer.text
    assert f"<style>{LOOK}</style><div" in answer.text
    assert SCRIPTS[1] in answer.text
    assert SCRIPTS[2] not in answer.text
    assert ("content-encoding" in answer.headers) is ("gzip" in encoding)
    assert answer.headers["vary"] == "Accept-Encoding"


def test_a_cached_page_is_never_confirmed_because_its_styles_may_have_changed() -> None:
    answer = get("/findings", {**BROWSER, "if-none-match": '"of-streamlit"'})

    assert answer.status_code == 200
    assert LOOK in answer.text
    assert "etag" not in answer.headers


@pytest.mark.parametrize(("path", "headers"), [("/report", BROWSER), ("/findings", {"accept": "*/*"})])
def test_another_answer_is_passed_on(path: str, headers: Mapping[str, str]) -> None:
    answer = get(path, {**headers, "accept-encoding": "gzip"})

    assert "<style>" not in answer.text
    assert "content-encoding" not in answer.headers
