"""The gateway's HTTP face: routes, episodes, and the way from a request to its answer."""

from __future__ import annotations

import json
import logging
import re
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from guards.errors import UserError
from runners.gateway.asking import (
    Backend,
    BadAsk,
)
from runners.gateway.episode import Episode, EpisodeSettings
from runners.gateway.turn import Turn, classify, refusal
from runners.gateway.wire.anthropic_request import MessagesRequest

_LOG = logging.getLogger(__name__)

DEFAULT_EPISODE = "default"
"""What `/v1/messages` without an episode belongs to."""

MOST_BODY_BYTES = 64 * 2**20
_EPISODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Guest(Protocol):
    """What a runner puts beside an episode's model: its world's tools, and who decides whether it goes on."""

    @property
    def mcp(self) -> ASGIApp | None:
        """The world over MCP, served at `/e/EPISODE/mcp`; None where the episode has no tools of its own."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Entered once before the episode's first request, and left after its last."""

    async def control(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answers `POST /e/EPISODE/control`: the harness' question before a step, with `go` true or false."""


class Gateway:
    """Serves one backend to any number of episodes. All of it lives on one event loop."""

    def __init__(self, backend: Backend, default: EpisodeSettings) -> None:
        """`default` are the settings of requests that name no episode; they may choose their sampler themselves.

        Raises UserError where the settings do not fit the backend.
        """
        self.backend = backend
        self._episodes: dict[str, Episode] = {}
        self._turns: set[Turn] = set()
        self._guests: dict[str, Guest] = {}
        self.open(DEFAULT_EPISODE, default, plain=True)
        self.app = Starlette(
            routes=[
                Route("/healthz", self._healthz),
                Route("/v1/models", self._models),
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/e/{episode}", self._episode, methods=["PUT", "GET", "DELETE"]),
                Route("/e/{episode}/control", self._control, methods=["POST"]),
                Route("/e/{episode}/mcp", _Worlds(self._guests)),
                Route("/e/{episode}/v1/models", self._models),
                Route("/e/{episode}/v1/messages", self._messages, methods=["POST"]),
            ],
            exception_handlers={404: _no_such_route, 405: _no_such_route},
        )

    def open(self, name: str, settings: EpisodeSettings, *, plain: bool = False, guest: Guest | None = None) -> Episode:
        """Begins an episode, with `guest` beside its model.

        Raises UserError for a bad or taken name or settings that the backend can not fulfil.
        """
        if not _EPISODE_NAME.fullmatch(name):
            raise UserError(f"episode {name!r}: use letters, digits, dot, dash and underscore, 128 at most")
        if name in self._episodes:
            raise UserError(f"episode {name!r} is open already; close it first or take another name")
        if settings.window is not None and settings.window > self.backend.window:
            raise UserError(
                f"episode {name!r}: window {settings.window} is more than the model's {self.backend.window}"
            )
        try:
            episode = Episode(name, settings, plain=plain)
        except UserError as error:
            raise UserError(f"episode {name!r}: {error}") from error
        self._episodes[name] = episode
        if guest is not None:
            self._guests[name] = guest
        return episode

    def close(self, name: str) -> Episode | None:
        """Ends an episode and returns it; None where none is open under that name."""
        self._guests.pop(name, None)
        return self._episodes.pop(name, None)

    def interrupt(self) -> None:
        """Ends the answers that are under way, each with an error, so that the server can stop."""
        for turn in self._turns:
            turn.interrupt()

    # -- routes --------------------------------------------------------------------------------------------------

    async def _healthz(self, request: Request) -> Response:
        wrong = self.backend.healthy()
        body = {"status": "ok" if wrong is None else wrong, "model": self.backend.name, "episodes": len(self._episodes)}
        return JSONResponse(body | self.backend.load(), 200 if wrong is None else 503)

    async def _models(self, request: Request) -> Response:
        model = {"type": "model", "id": self.backend.name, "display_name": self.backend.name}
        model["created_at"] = "1970-01-01T00:00:00Z"
        name = self.backend.name
        return JSONResponse({"data": [model], "has_more": False, "first_id": name, "last_id": name})

    async def _episode(self, request: Request) -> Response:
        name = request.path_params["episode"]
        if request.method == "PUT":
            return await self._put_episode(name, request)
        if request.method == "DELETE" and name == DEFAULT_EPISODE:
            return refusal(400, "invalid_request_error", f"episode {name!r} is the server's own and stays open")
        episode = self.close(name) if request.method == "DELETE" else self._episodes.get(name)
        return _no_episode(name) if episode is None else JSONResponse(episode.summary())

    async def _put_episode(self, name: str, request: Request) -> Response:
        try:
            settings = EpisodeSettings.model_validate_json(await _body(request) or b"{}")
            return JSONResponse(self.open(name, settings).summary(), 201)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"]) or "body"
            return refusal(400, "invalid_request_error", f"episode {name!r}: {where}: {first['msg']}")
        except ClientDisconnect:
            return Response(status_code=499)
        except BadAsk as error:
            return refusal(400, "invalid_request_error", f"episode {name!r}: {error}")
        except UserError as error:
            return refusal(409 if name in self._episodes else 400, "invalid_request_error", str(error))

    async def _control(self, request: Request) -> Response:
        guest = self._guests.get(request.path_params["episode"])
        if guest is None:
            return _no_episode(request.path_params["episode"])
        return JSONResponse(await guest.control(json.loads(await _body(request))))

    async def _messages(self, request: Request) -> Response:
        name = request.path_params.get("episode", DEFAULT_EPISODE)
        episode = self._episodes.get(name)
        if episode is None:
            return _no_episode(name)
        try:
            parsed = MessagesRequest.read(await _body(request))
            if episode.plain and parsed.model not in (self.backend.name, DEFAULT_EPISODE):
                return refusal(
                    404, "not_found_error", f"model: {parsed.model!r} is not served; {self.backend.name!r} is"
                )
            turn = await Turn.of(self.backend, episode, parsed, request)
            self._turns.add(turn)
            turn.ended = lambda: self._turns.discard(turn)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            return refusal(*classify(error, episode))
        return await (turn.streamed() if parsed.stream else turn.whole())


class _Worlds:
    """Sends a request on to the world of its episode."""

    def __init__(self, guests: dict[str, Guest]) -> None:
        self._guests = guests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path_params"]["episode"]
        guest = self._guests.get(name)
        app = _no_episode(name) if guest is None or guest.mcp is None else guest.mcp
        await app(scope, receive, send)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            raise BadAsk(f"the body has more than {MOST_BODY_BYTES} bytes")
    return bytes(body)


def _no_episode(name: str) -> Response:
    return refusal(404, "not_found_error", f"episode {name!r} is not open; PUT /e/{name} opens it")


async def _no_such_route(request: Request, _error_raised: Exception) -> Response:
    status = getattr(_error_raised, "status_code", 404)
    return refusal(status, "not_found_error", f"{request.method} {request.url.path} is nothing that is served here")
