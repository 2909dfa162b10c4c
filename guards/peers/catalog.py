"""The detectors of other products by name, and those that are not replayed, with the reason."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from guards.peers.claude_code import ClaudeCode
from guards.peers.cline import Cline
from guards.peers.crewai import CrewAI
from guards.peers.deer_flow import DeerFlow
from guards.peers.gemini_cli import GeminiCli
from guards.peers.hermes import Hermes
from guards.peers.kimi_cli import KimiCli
from guards.peers.openclaw import OpenClaw
from guards.peers.opencode import Opencode
from guards.peers.openhands import OpenHands
from guards.peers.peer import PREFIX, Peer
from guards.peers.qwen_code import QwenCode
from guards.peers.roo_code import RooCode
from guards.peers.zcode import Zcode
from guards.peers.zcode_refill import ZcodeRefill

_ALL: tuple[type[Peer[Any]], ...] = (
    *(OpenHands, GeminiCli, QwenCode, KimiCli, Cline, RooCode, Opencode, OpenClaw, Hermes, DeerFlow, CrewAI),
    *(Zcode, ZcodeRefill, ClaudeCode),
)

PEERS = MappingProxyType({peer.name: peer for peer in _ALL})

_NO_IDENTITY = "it ends a run by steps, cost or time alone, and never looks for a repeated call"

# Peers that people ask for and that can not be replayed.
SKIPPED = MappingProxyType(
    {
        f"{PREFIX}goose": "off by default, and the version that was read forgets its count after each batch: it never "
        "fires",
        f"{PREFIX}dsh-agent-loop-guard": "its tokens of progress and its answer-only state are not described closely "
        "enough",
        f"{PREFIX}langgraph": _NO_IDENTITY,
        f"{PREFIX}smolagents": _NO_IDENTITY,
        f"{PREFIX}swe-agent": _NO_IDENTITY,
        f"{PREFIX}codex-cli": "it has no detector of identical calls",
    }
)
