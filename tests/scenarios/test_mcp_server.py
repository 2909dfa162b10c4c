"""A world over MCP: the real client, a real web server, and requests that no client would send."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Tool

from scenarios.mcp_server import MOST_BYTES
from scenarios.registry import names, scenario
from tests.scenarios.calls import BIG
from tests.scenarios.serving import served

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


async def talk(url: str, *calls: tuple[str, dict[str, Any]]) -> tuple[list[Tool], list[CallToolResult]]:
    """The tools, and the results of the calls, each by a client of its own."""
    results = []
    for name, args in calls:
        async with streamable_http_client(url) as (reading, writing), ClientSession(reading, writing) as client:
            await client.initialize()
            results.append(await client.call_tool(name, args))
    async with streamable_http_client(url) as (reading, writing), ClientSession(reading, writing) as client:
        await client.initialize()
        return (await client.list_tools()).tools, results


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if block.type == "text"]


def post(url: str, body: str | bytes) -> httpx.Response:
    return httpx.post(url, content=body, headers=HEADERS, timeout=60)


def request(arguments: str, tool: str = '"web_search"') -> str:
    params = f'{{"name": {tool}, "arguments": {arguments}}}'
    return f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}'


@pytest.mark.parametrize("name", names())
def test_the_tools_are_those_of_the_scenario(name: str):
    task = scenario(name)
    with served(task, task.world()) as url:
        tools, _ = asyncio.run(talk(url))
    assert [(tool.name, tool.description, tool.input_schema) for tool in tools] == [
        (tool.name, tool.description, tool.parameters) for tool in task.tools
    ]


def test_calls_reach_one_world_whoever_asks():
    task = scenario("search-mirage")
    world, twin = task.world(), task.world()
    answer = {"answer": "1900"}
    calls = [("web_search", {"query": "tables"}), ("submit_answer", answer), ("web_search", {}), ("nosuch", {})]
    with served(task, world) as url:
        _, results = asyncio.run(talk(url, *calls))
    expected = [twin.call(tool, args) for tool, args in calls]
    assert [(texts(result), result.is_error) for result in results] == [([e.text], e.error) for e in expected]
    assert [result.is_error for result in results] == [False, False, True, True]
    assert world.ticks == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"query": ' + "[" * 5000 + "]" * 5000 + "}", "query: Input should be a valid string"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "query: Field required; a: Extra inputs are not permitted"),
        ('{"query": "\\ud800"}', "query: text is not valid Unicode"),
        ('{"query": "\\u0000"}', "query: text holds control characters"),
        ("[1]", "arguments: must be a JSON object"),
        ("null", "arguments: must be a JSON object"),
        ('"text"', "arguments: must be a JSON object"),
        ("{}", "query: Field required"),
        (json.dumps({"query": BIG}), "query: text is longer than 4000 characters"),
    ],
    ids=["deep value", "deep name", "surrogate", "control", "list", "null", "string", "nothing", "10 MB"],
)
def test_bad_arguments_are_an_error_result(arguments: str, problem: str):
    task = scenario("search-mirage")
    with served(task, task.world()) as url:
        answer = post(url, request(arguments))
        after = post(url, request('{"query": "tables"}'))
    assert answer.status_code == 200
    result = {
        "content": [{"text": f"Invalid arguments for web_search: {problem}", "type": "text"}],
        "isError": True,
    }
    assert answer.json() == {"jsonrpc": "2.0", "id": 7, "result": result}
    assert after.json()["result"]["isError"] is False


def test_absent_arguments_are_an_empty_object():
    task = scenario("search-mirage")
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "web_search"}}
    with served(task, task.world()) as url:
        answer = post(url, json.dumps(body))
    assert texts(CallToolResult(**answer.json()["result"])) == [
        "Invalid arguments for web_search: query: Field required"
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[" * 5000,
        b"nothing",
        b"[]",
        b"3",
        request("[1]", tool="5").encode(),
        request("[1", "3").encode(),
    ],
)
def test_what_is_no_tool_call_is_refused_and_harms_nothing(body: bytes):
    task = scenario("search-mirage")
    with served(task, task.world()) as url:
        answer = post(url, body)
        after = post(url, request('{"query": "tables"}'))
    assert answer.status_code == 400 or "error" in answer.json()
    assert after.json()["result"]["isError"] is False


def test_a_body_above_the_limit_is_refused():
    task = scenario("search-mirage")
    with served(task, task.world()) as url:
        answer = post(url, b" " * (MOST_BYTES + 1))
        after = post(url, request('{"query": "tables"}'))
    assert answer.status_code == 413
    assert after.json()["result"]["isError"] is False
