"""One request on its way to an answer, and the ways in which it ends."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from guards.errors import UserError
from runners.gateway.aliases import VolatileLeft
from runners.gateway.asking import (
    Accepted,
    Answer,
    Ask,
    Backend,
    BackendFailure,
    BadAsk,
    ContextOverflow,
    Delta,
    Event,
    Overloaded,
)
from runners.gateway.conversation import Call, ToolCall
from runners.gateway.episode import Episode, Step
from runners.gateway.tape import TapeMiss
from runners.gateway.wire import anthropic_reply as wire
from runners.gateway.wire.anthropic_request import MessagesRequest

_LOG = logging.getLogger(__name__)

SESSION_HEADER = "x-deepseek-harness-session-id"
COMPACT_HEADER = "x-deepseek-harness-compact"
PING_SECONDS = 5.0
STOPPED = "the server was stopped"
_DISCONNECT_SECONDS = 0.5
_SESSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{2,126}[A-Za-z0-9_]")


class Turn:
    """One request on its way to an answer."""

    def __init__(self, episode: Episode, request: Request, model: str, ask: Ask, events: AsyncGenerator[Event]) -> None:
        self._episode = episode
        self._request = request
        self._model = model
        self._ask = ask
        self._events = events
        self._task: asyncio.Future[Any] | None = None
        """What is being waited for: the next event, or the whole answer."""
        self._settled = False
        self._over = False
        self._interrupted = False
        self.ended: Callable[[], object] = lambda: None
        """Called once when nothing is left to do."""

    @classmethod
    async def of(cls, backend: Backend, episode: Episode, parsed: MessagesRequest, request: Request) -> Turn:
        """Raises BadAsk, VolatileLeft."""
        settings = episode.settings
        session = request.headers.get(SESSION_HEADER)
        conversation = parsed.conversation()
        if not (episode.plain or session is None or _SESSION.fullmatch(session)):
            raise BadAsk(f"header {SESSION_HEADER}: {session[:80]!r} is no session id: 4 to 128 of A-Z a-z 0-9 . _ -")
        try:
            agent = await episode.agent(session, conversation)
            hidden = episode.hidden(session, conversation)
        except VolatileLeft:
            raise
        except UserError as error:
            raise BadAsk(str(error)) from error
        sampler = settings.sampler if settings.sampler is not None else backend.sampler
        if episode.plain:
            asked = {"temperature": parsed.temperature, "top_p": parsed.top_p, "top_k": parsed.top_k}
            sampler = sampler.model_copy(update={key: value for key, value in asked.items() if value is not None})
        compaction = request.headers.get(COMPACT_HEADER) == "1"
        if episode.opening is None and agent == 0 and not compaction:
            episode.opening = hidden
        ask = Ask(
            episode=episode.name,
            agent=agent,
            session=session,
            step=episode.begin(agent, compaction=compaction),
            conversation=hidden,
            decode_mode="forced" if parsed.forced else settings.decode_mode,
            max_tokens=min(parsed.max_tokens, settings.max_tokens or parsed.max_tokens),
            window=settings.window or backend.window,
            sampler=sampler,
            seed=settings.seed,
            stops=parsed.stop_sequences,
            compaction=compaction,
            only_tool=parsed.only_tool,
            occurrences=episode.occurrences,
        )
        return cls(episode, request, parsed.model, ask, backend.answer(ask))

    async def whole(self) -> Response:
        """The reply in one piece; the work is cancelled when the client goes away."""
        self._task = asyncio.ensure_future(self._last())
        try:
            while not (await asyncio.wait({self._task}, timeout=_DISCONNECT_SECONDS))[0]:
                if await self._request.is_disconnected():
                    return Response(status_code=499)
            if self._interrupted:
                return refusal(503, "api_error", STOPPED)
            answer = self._task.result()
            body = wire.body(
                wire.message(self._identifier(answer.tape_key), self._model, answer, self._call_ids(answer))
            )
            return Response(body, media_type="application/json")
        except Exception as error:
            return refusal(*classify(error, self._episode))
        finally:
            await self.end()

    async def streamed(self) -> Response:
        """The reply as server-sent events. What fails before the first event is an HTTP error."""
        try:
            accepted = await anext(self._events)
            assert isinstance(accepted, Accepted)
        except Exception as error:
            await self.end()
            return refusal(*classify(error, self._episode))
        return _Stream(self, self._sse(accepted))

    async def _sse(self, accepted: Accepted) -> AsyncIterator[bytes]:
        stream = wire.MessageStream(self._identifier(accepted.tape_key), self._model)
        clock = asyncio.get_running_loop().time
        try:
            yield stream.start(accepted.input_tokens)
            sent = clock()
            while not self._interrupted:
                self._task = self._task or asyncio.ensure_future(anext(self._events))
                if not (await asyncio.wait({self._task}, timeout=max(0.0, sent + PING_SECONDS - clock())))[0]:
                    yield wire.PING
                    sent = clock()
                    continue
                if self._interrupted:
                    continue
                event, self._task = self._task.result(), None
                if isinstance(event, Delta):
                    if piece := stream.delta(event.kind, event.text):
                        yield piece
                        sent = clock()
                elif isinstance(event, Answer):
                    answer = self._settle(event)
                    yield stream.finish(answer, self._call_ids(answer))
                    return
            yield wire.sse(wire.error("api_error", STOPPED))
        except Exception as error:
            _, kind, text = classify(error, self._episode)
            yield wire.sse(wire.error(kind, text))

    async def _last(self) -> Answer:
        async for event in self._events:
            if isinstance(event, Answer):
                return self._settle(event)
        raise BackendFailure("the backend ended without an answer")

    async def end(self) -> None:
        """Stops the work where it is not done, and gives back the step where nothing came of it."""
        if self._over:
            return
        self._over = True
        if self._task is not None:
            self._task.cancel()
            # Takes its exception too, which nobody else will when the client is gone.
            await asyncio.gather(self._task, return_exceptions=True)
        await self._events.aclose()
        if not self._settled and not self._ask.compaction:
            self._episode.abandon(self._ask.agent, self._ask.step)
        self.ended()

    def interrupt(self) -> None:
        """Has the client told that the server stops, instead of an answer."""
        self._interrupted = True
        if self._task is not None:
            self._task.cancel()

    def _settle(self, answer: Answer) -> Answer:
        """Books the answer and makes real what it names by alias."""
        self._settled = True
        ask, aliases = self._ask, self._episode.aliases
        self._episode.record(
            Step(
                agent=ask.agent,
                step=ask.step,
                session=ask.session,
                compaction=ask.compaction,
                calls=len(answer.reply.calls),
                input_tokens=answer.input_tokens,
                output_tokens=answer.output_tokens,
                prefill_seconds=answer.prefill_seconds,
                decode_seconds=answer.decode_seconds,
                finish=answer.finish,
                tape_key=answer.tape_key,
                prompt_digest=answer.prompt_digest,
                decoded=answer.decoded,
                primed=answer.primed,
            )
        )
        if self._episode.plain or not answer.reply.calls:
            return answer
        ids = self._call_ids(answer)
        calls = tuple(
            Call(call.name, cast(dict[str, Any], aliases.reveal(call.arguments))) for call in answer.reply.calls
        )
        aliases.sent([ToolCall(at, call.name, call.arguments) for at, call in zip(ids, calls, strict=True)])
        return replace(answer, reply=replace(answer.reply, calls=calls))

    def _call_ids(self, answer: Answer) -> tuple[str, ...]:
        """Made of agent, step and index, so that they are equal in every run."""
        return tuple(f"toolu_{self._ask.agent}_{self._ask.step}_{at}" for at in range(len(answer.reply.calls)))

    def _identifier(self, tape_key: str | None) -> str:
        """Equal for equal answers: made of the tape key, or of the place in the episode where the backend has none."""
        ask = self._ask
        made_of = f"{ask.episode} {ask.agent} {'summary' if ask.compaction else 'step'} {ask.step}"
        return "msg_" + (tape_key or hashlib.sha256(made_of.encode()).hexdigest())[:24]


class _Stream(StreamingResponse):
    """Ends its turn however the sending ends: a client that goes away cancels it wherever it is, before the first
    event, in the midst of a wait or between two events."""

    def __init__(self, turn: Turn, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._turn.end()


def classify(error: BaseException, episode: Episode) -> tuple[int, str, str]:
    """HTTP status, error type and text. What is no mistake of the request marks the episode as failed."""
    match error:
        case BadAsk():
            return 400, "invalid_request_error", str(error)
        case ContextOverflow():
            return 400, "invalid_request_error", wire.overflow_text(error.input_tokens, error.window)
        case Overloaded():
            return 529, "overloaded_error", str(error)
        case TapeMiss() | VolatileLeft() | BackendFailure():
            episode.failure = episode.failure or f"{type(error).__name__}: {error}"
            return 500, "api_error", str(error)
        case _:
            _LOG.error("episode %s: internal error", episode.name, exc_info=error)
            episode.failure = episode.failure or f"internal error: {type(error).__name__}: {error}"
            return 500, "api_error", f"internal error: {type(error).__name__}: {error}"


def refusal(status: int, kind: str, text: str) -> Response:
    return JSONResponse(wire.error(kind, text), status)
