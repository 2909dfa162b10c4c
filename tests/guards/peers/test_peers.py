"""What all peers have in common: agents, the corpus, hostile traces, and what is told of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guards import registry
from guards.errors import UserError
from guards.peers.catalog import PEERS, SKIPPED
from guards.policy import Policy, ToolOutcome
from results.trace import Header, Trace, event_of, header_of
from results.trace_file import read_trace
from runners.replay import replay
from tests.guards.peers.script import ANSWER, USER, Compacts, Does, Together, trace
from tests.guards.plugins.generated import traces
from tests.results.trace_values import TRACES

CORPUS = sorted((Path(__file__).resolve().parents[2] / "traces").glob("*.trace.jsonl"))
NAMES = sorted(PEERS)
# The loudest of each: what is off by default is on.
LOUD = {"peer:qwen-code": "all", "peer:openclaw": "on", "peer:hermes": "unattended"}
each_peer = pytest.mark.parametrize("name", NAMES)

calls = st.one_of(
    st.sampled_from("AB"),
    st.builds(
        Does,
        st.sampled_from(("look", "task_list", "web_search", "read_file", "process", "job_poll")),
        st.sampled_from(({}, {"path": "a"}, "torn {", None, [1], 1.0, {"action": "poll"}, {"action": []})),
        st.sampled_from(("same", "other", "", None)),
        st.booleans(),
        st.sampled_from((None, None, None, "x@host")),
    ),
)
compactions = st.builds(
    Compacts,
    st.integers(0, 4),
    st.sampled_from(("committed", "nothing", "failed", "refused")),
    st.sampled_from(("pressure", "overflow", "manual")),
)
together = st.lists(calls, min_size=1, max_size=4).map(lambda given: Together(tuple(given)))
acts = st.lists(st.one_of(calls, calls, together, compactions, st.sampled_from((USER, ANSWER))), max_size=12)


def rows(name, given):
    return [each.row() for each in replay(given, registry.build(name, LOUD.get(name)))]


def test_the_products_of_the_specification_are_there():
    assert [name.removeprefix("peer:") for name in registry.peer_names()] == [
        *("openhands", "gemini-cli", "qwen-code", "kimi-cli", "cline", "roo-code", "opencode", "openclaw", "hermes"),
        *("deer-flow", "crewai", "zcode", "zcode-refill", "claude-code"),
    ]


@each_peer
def test_a_policy_is_named_like_its_configuration(name):
    assert registry.build(name).name == PEERS[name].config_type.guard == name


@each_peer
def test_an_agent_on_its_own_decides_as_in_company(name):
    """The same session twice in one trace, interleaved event by event, and once alone."""
    given = [*"ABABABABABABAA", Together(("A", "A", "A")), *"AAAAAAAA", Compacts(), *[Compacts(1)] * 4, *"AA"]
    alone, other = (trace(*given, agent=agent).events for agent in ("root", "child"))
    mixed = Trace(Header("e"), tuple(event for pair in zip(alone, other, strict=True) for event in pair))
    found = rows(name, mixed)
    expected = rows(name, Trace(Header("e"), alone))
    assert expected != []
    assert [each for each in found if each["agent"] == "root"] == expected
    assert [each | {"agent": "root"} for each in found if each["agent"] == "child"] == expected


@each_peer
@pytest.mark.parametrize("file", CORPUS, ids=lambda path: path.stem)
def test_the_corpus(name, file):
    """Whatever is decided is decided of a call or an attempt that is there, in order, and a second time the same."""
    given = read_trace(file)
    found = rows(name, given)
    assert rows(name, given) == found
    asked = {(event.agent, event.id) for event in given.events if event.type == "call"}
    assert all(row["call"] is None or (row["agent"], row["call"]) in asked for row in found)
    assert all(row["guard"] == name and row["count"] >= 1 and row["limit"] >= 1 for row in found)
    assert {row["action"] for row in found} <= {"deny", "nudge", "refuse"}
    assert all((row["action"] == "refuse") == (row["call"] is None) for row in found)


@given(given=TRACES)
def test_no_trace_breaks_a_peer(given):
    for name in NAMES:
        rows(name, given)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(given=acts)
def test_no_session_breaks_a_peer(given):
    """And a halt lasts until the user speaks: no call runs behind it."""
    session = trace(*given)
    asked = sum(event.type == "call" for event in session.events)
    for name in NAMES:
        found = rows(name, session)
        assert found == rows(name, session)
        stops = [each["index"] for each in found if (each["action"], each["kind"]) == ("deny", "halted")]
        if stops and USER not in given and name != "peer:gemini-cli":
            behind = [each["index"] for each in found if each["action"] == "deny" and each["index"] >= stops[0]]
            assert behind == list(range(stops[0], asked + 1))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(text=traces("circuit-breaker"))
def test_no_json_breaks_a_peer(text):
    """Deep nesting, lone surrogates, odd numbers, results in any order."""
    header, *lines = text.rstrip("\n").split("\n")
    given = Trace(header_of(header), tuple(event_of(line) for line in lines))
    for name in NAMES:
        rows(name, given)


@each_peer
def test_what_is_no_json_value_is_equal_to_nothing(name):
    policy = registry.build(name, LOUD.get(name))
    for _ in range(4):
        assert policy.before_call("root", "look", {"a": object()}) is None
        policy.after_call("root", "look", {"a": object()}, ToolOutcome(({"type": "x", "v": object()},)), executed=True)


@each_peer
def test_all_of_it_is_told(name):
    about = registry.describe(name)
    assert about.peer
    assert about.summary
    assert about.source
    assert re.search(r"^Rule", about.about, re.MULTILINE)
    assert re.search(r"^Left out: ", about.about, re.MULTILINE)
    assert all(key.allowed for key in about.keys)
    effective = registry.configure(name).effective()
    assert {key.name: key.default for key in about.keys if key.default is not None} == effective


# By hand, from what the products publish; lists of names are left out.
PUBLISHED = {
    "openhands": {
        "stuckDetection": True,
        "actionObservation": 4,
        "actionError": 3,
        "monologue": 3,
        "alternatingPattern": 6,
        "maxEvents": 20,
    },
    "gemini-cli": {"disableLoopDetection": False, "threshold": 5, "maxCycleLength": 5, "historySize": 25},
    "qwen-code": {
        "consecutive": 5,
        "statefulReadTools": ["task_list"],
        "skipLoopDetection": True,
        "globalDuplicates": 6,
        "alternatingCycles": 3,
        "readFileThreshold": 8,
        "readFileWindow": 15,
        "stagnation": 8,
    },
    "kimi-cli": {"gentleThreshold": 3, "detailedThreshold": 5, "stopThreshold": 8, "forceStopThreshold": 12},
    "cline": {"softThreshold": 3, "hardThreshold": 5},
    "roo-code": {"consecutiveMistakeLimit": 3},
    "opencode": {"threshold": 3, "permission": "ask"},
    "openclaw": {
        "enabled": False,
        "historySize": 30,
        "warningThreshold": 10,
        "criticalThreshold": 20,
        "globalCircuitBreakerThreshold": 30,
        "genericRepeat": True,
        "knownPollNoProgress": True,
        "pingPong": True,
    },
    "hermes": {
        "warningsEnabled": True,
        "hardStopEnabled": False,
        "exactFailureWarnAfter": 2,
        "exactFailureBlockAfter": 5,
        "sameToolFailureWarnAfter": 3,
        "sameToolFailureHaltAfter": 8,
        "noProgressWarnAfter": 2,
        "noProgressBlockAfter": 5,
        "identicalThreshold": 3,
        "maxWebSearches": 50,
    },
    "deer-flow": {
        "enabled": True,
        "warnThreshold": 3,
        "hardLimit": 5,
        "windowSize": 20,
        "toolFreqWarn": 30,
        "toolFreqHardLimit": 50,
    },
    "crewai": {},
    "zcode": {"repeatedToolCallWarningThreshold": 3, "maxBudgetWarningsPerTurn": 3, "toolCallWarningThreshold": 0},
    "zcode-refill": {"rapidRefillToolTurnThreshold": 3, "maxConsecutiveRapidRefills": 3},
    "claude-code": {
        "rapidRefillToolTurnThreshold": 3,
        "maxConsecutiveRapidRefills": 3,
        "maxConsecutiveFailures": 3,
    },
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_defaults_are_as_published(name):
    effective = registry.configure(f"peer:{name}").effective()
    lists = {"idempotentTools", "progressTools", "failureTolerantTools"}
    assert {key: value for key, value in effective.items() if key not in lists} == PUBLISHED[name]


@each_peer
def test_the_least_that_a_key_allows(name):
    """One less than what "an integer >= N" says is refused, and N is not, as far as other keys let it be."""
    for key in registry.describe(name).keys:
        least = re.match(r"an integer >= ([0-9]+)", key.allowed)
        if least is not None:
            with pytest.raises(UserError):
                registry.configure(name, settings={key.name: int(least[1]) - 1})
            if "at most" not in key.allowed and key.name not in ("readFileWindow", "historySize"):
                registry.configure(name, settings={key.name: int(least[1])})


@each_peer
def test_defaults_are_allowed_and_nonsense_is_not(name):
    for key in registry.describe(name).keys:
        if key.default is not None:
            registry.configure(name, settings={key.name: key.default})
        with pytest.raises(UserError, match=re.escape(f"{name}: {key.name} is {{}}; allowed: {key.allowed}")):
            registry.configure(name, settings={key.name: {}})
    with pytest.raises(UserError, match='unknown key "nonsense"'):
        registry.configure(name, settings={"nonsense": 1})


@each_peer
def test_presets(name):
    for preset, keys in registry.presets(name).items():
        assert registry.configure(name, preset).effective().items() >= keys.items()
    with pytest.raises(UserError, match="unknown preset 'nonsense'"):
        registry.configure(name, "nonsense")


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("gemini-cli", {"historySize": 4}, "historySize is 4; allowed: an integer >= threshold (threshold is 5)"),
        ("qwen-code", {"readFileWindow": 7}, "readFileThreshold is 8; "),
        ("kimi-cli", {"gentleThreshold": 6}, "detailedThreshold is 5; allowed: an integer >= gentleThreshold (gentle"),
        ("kimi-cli", {"detailedThreshold": 9}, "stopThreshold is 8; "),
        ("kimi-cli", {"stopThreshold": 13}, "forceStopThreshold is 12; "),
        ("deer-flow", {"hardLimit": 2}, "hardLimit is 2; "),
        ("deer-flow", {"toolFreqWarn": 51}, "toolFreqHardLimit is 50; "),
        ("opencode", {"permission": "maybe"}, 'permission is "maybe"; allowed: "ask", "deny" or "allow"'),
    ],
)
def test_rules_between_keys(name, given, said):
    with pytest.raises(UserError) as caught:
        registry.build(f"peer:{name}", settings=given)
    assert str(caught.value).startswith(f"peer:{name}: {said}")


@pytest.mark.parametrize("name", sorted(SKIPPED))
def test_a_peer_that_is_not_replayed_says_why(name):
    with pytest.raises(UserError) as caught:
        registry.build(name)
    assert str(caught.value) == f"{name} is not replayed: {SKIPPED[name]}"


def test_policies_are_policies():
    assert all(issubclass(peer, Policy) for peer in PEERS.values())
