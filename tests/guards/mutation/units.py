"""What no trace can hold, of the Python guards: each function asserts, on the modules that it is given."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from guards.errors import UserError
from guards.policy import ToolOutcome

Modules = dict[str, ModuleType]
Unit = Callable[[Modules], None]


def of(names: Collection[str]) -> list[Unit]:
    """The checks of these modules, and of what is built on them."""
    return [check for name, checks in _UNITS.items() if name in names for check in checks]


def _refusal(run: Callable[[], object]) -> str:
    """The text of the error that a call ends with."""
    try:
        run()
    except (UserError, TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("it was not refused")


def _breaker(modules: Modules, *, live: bool | None = None, **settings: Any) -> Any:
    module = modules["circuit_breaker"]
    config = module.CircuitBreakerConfig.load(settings)
    return module.CircuitBreaker(config) if live is None else module.CircuitBreaker(config, live=live)


def _asked(policy: Any, *calls: Any, agent: str = "root", tool: str = "x") -> str:
    found = [policy.before_call(agent, tool, args) for args in calls]
    return "".join("r" if each is None else each.kind[0] for each in found)


def arguments_that_are_no_json(modules: Modules) -> None:
    policy = _breaker(modules, duplicateLimit=2, window=1, maxCallsPerAgent=5)
    assert _asked(policy, "a", {1}, {1}, "a", {2}, {3}, "b") == "rrrdrrc"


def calls_that_are_stopped_elsewhere(modules: Modules) -> None:
    policy = _breaker(modules, duplicateLimit=2, maxCallsPerAgent=2)
    assert [policy.before_call("root", "x", "a", counted=False) for _ in range(5)] == [None] * 5
    assert _asked(policy, "a", "a", "b", "c") == "rdrc"


def the_cap_at_defaults(modules: Modules) -> None:
    assert _asked(_breaker(modules), *range(302)) == "r" * 300 + "cc"
    assert _asked(_breaker(modules, maxCallsPerAgent=0), *range(302)) == "r" * 302
    policy = _breaker(modules)
    assert _asked(policy, "a", "a", "a", "a", "a", *range(195), "a", 300, "a") == "r" * 200 + "drr"


def the_memory_is_as_large_as_the_window(modules: Modules) -> None:
    policy = _breaker(modules, duplicateLimit=2, window=3)
    _asked(policy, *range(50))
    seen = policy._agents["root"]
    assert (len(seen.recent), len(seen.counts), seen.executed) == (3, 3, 50)


def what_is_forgotten_one_by_one(modules: Modules) -> None:
    assert _asked(_breaker(modules, duplicateLimit=3, window=5), *"abacdeaa") == "rrrrrrrd"


def incidents(modules: Modules) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "incidents.jsonl"
        path.write_text("before\n", encoding="utf-8")
        settings: dict[str, Any] = {"duplicateLimit": 2, "maxCallsPerAgent": 2, "incidentLog": str(path)}
        assert _asked(_breaker(modules, **settings), "a", "a") == "rd"
        assert _asked(_breaker(modules, live=True, **settings | {"incidentLog": ""}), "a", "a") == "rd"
        assert _asked(_breaker(modules, live=False, **settings), "a", "a") == "rd"
        policy = _breaker(modules, live=True, **settings)
        for agent in ("root", "s1"):
            assert _asked(policy, "a", "a", "a", "b", "c", "c", agent=agent) == "rddrcc"
        before, *lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
    assert before == "before"
    assert [list(row) for row in rows] == [["time", "kind", "tool", "count", "limit", "agent"]] * 4
    times = [row.pop("time") for row in rows]
    assert all(len(time) == len("2026-01-01T00:00:00.000Z") and time.endswith("Z") for time in times)
    assert [list(row.values()) for row in rows] == [
        [kind, "x", 2, 2, agent] for agent in ("root", "s1") for kind in ("duplicate", "cap")
    ]


def a_log_that_can_not_be_written(modules: Modules) -> None:
    with tempfile.TemporaryDirectory() as folder:
        policy = _breaker(modules, live=True, duplicateLimit=2, incidentLog=str(Path(folder) / "none" / "log"))
        assert _asked(policy, "a", "a") == "rd"


def _shown(text: str, *, error: bool = False, message: str | None = None) -> ToolOutcome:
    return ToolOutcome(({"type": "text", "text": text},), error, message)


def _guard(modules: Modules, **settings: Any) -> Any:
    module = modules["loop_guard"]
    return module.LoopGuard(module.LoopGuardConfig.load(settings))


def _counts(policy: Any, *calls: tuple[Any, ToolOutcome]) -> list[int | None]:
    nudges = [policy.after_call("root", "x", args, result, executed=True) for args, result in calls]
    return [nudge and nudge.count for nudge in nudges]


def results_that_are_no_json(modules: Modules) -> None:
    odd = ToolOutcome(({"type": "blob", "data": b"x"},))
    policy = _guard(modules, softThreshold=2, hardThreshold=3)
    assert _counts(policy, *[(1, odd)] * 4) == [None] * 4
    assert _counts(policy, *[({1}, _shown("a"))] * 4) == [None] * 4
    assert all(policy.before_call("root", "x", args) is None for args in ({1}, 1))


def a_denial_needs_a_key(modules: Modules) -> None:
    policy = _guard(modules, softThreshold=0, hardThreshold=1)
    assert _counts(policy, ({1}, _shown("a"))) == [None]
    assert policy.before_call("root", "x", {1}) is None
    assert policy.before_call("root", "x", {2}) is None
    assert _guard(modules, softThreshold=0, hardThreshold=1).before_call("new", "x", {1}) is None


def messages_of_errors(modules: Modules) -> None:
    policy = _guard(modules, softThreshold=2, hardThreshold=0)
    told = [_shown("x"), _shown("x"), *[_shown("x", error=True, message=text) for text in "xxyy"]]
    assert _counts(policy, *((1, each) for each in told)) == [None, 2, None, 2, None, 2]
    key = modules["loop_guard"].result_key
    assert key(_shown("x", error=True), 99).decode("utf-16-le") == '["error","x",[{"type":"text","text":"x"}]]'
    assert key(_shown("x", error=True, message="m"), 99).decode("utf-16-le")[:13] == '["error","m",'


def results_that_are_cut(modules: Modules) -> None:
    key = modules["loop_guard"].result_key
    head = len('[{"type":"text","text":"')
    for text in ("a" * 9, "😀" * 9, "\ud83d\ude00" * 9, "\ud83d" * 9, '"' * 9):
        whole = key(_shown(text), 9999)
        for most in range(1, head + 30):
            assert key(_shown(text), most) == whole[: 2 * most], (text, most)
        error = key(_shown(text, error=True), 9999)
        for most in range(1, 60):
            assert key(_shown(text, error=True), most) == error[: 2 * most], (text, most)
    for block in (
        {"type": "other", "text": "abcdefgh"},
        {"text": "abcdefgh", "type": "text"},
        {"text": 5, "type": "x"},
    ):
        assert key(ToolOutcome((block,)), 99).decode("utf-16-le") == json.dumps([block], separators=(",", ":"))
        assert key(ToolOutcome((block,)), 9) == key(ToolOutcome((block,)), 99)[:18]


def fresh_states(modules: Modules) -> None:
    chain, run = modules["loop_guard"]._Chain(), modules["repeat_reminder"]._Run()
    assert [chain.key, chain.result, chain.count, run.key, run.count] == [None, None, 0, None, 0]


def other_agents(modules: Modules) -> None:
    policy = _guard(modules, softThreshold=0, hardThreshold=2)
    for agent in ("root", "s1"):
        for _ in range(2):
            policy.after_call(agent, "x", 1, _shown("a"), executed=True)
    policy.user_message("root")
    policy.user_message("never seen")
    assert [policy.before_call(agent, "x", 1) is None for agent in ("root", "s1")] == [True, False]


def _refills(modules: Modules, **settings: Any) -> Any:
    module = modules["compaction_breaker"]
    return module.CompactionBreaker(module.CompactionBreakerConfig.load(settings))


def a_session_by_hand(modules: Modules) -> None:
    policy = _refills(modules, maxConsecutiveRapidRefills=1)
    policy.model_response("root", 0)
    session = policy._session("root")
    assert (session.turns, session.mark, session.rapid, session.tripped, session.refused) == (0, None, 0, False, 0)
    policy.model_response("root", 2)
    policy.after_compaction("root", "pressure", "committed")
    assert (session.turns, session.mark, session.rapid, session.tripped, session.refused) == (1, 1, 0, False, 0)
    kinds = [policy.before_compaction("root", trigger).kind for trigger in ("pressure", "overflow", "pressure")]
    assert kinds == ["rapid-refill", "latched", "latched"]
    assert policy.before_compaction("root", "manual") is None
    assert (session.turns, session.mark, session.rapid, session.tripped, session.refused) == (1, 1, 0, True, 3)
    policy.model_response("root", 1)
    policy.reset("root")
    assert (session.turns, session.mark, session.rapid, session.tripped, session.refused) == (2, 2, 0, False, 0)
    policy = _refills(modules)
    for _ in range(2):
        policy.after_compaction("root", "overflow", "committed")
    session = policy._session("root")
    assert (session.mark, session.rapid) == (0, 1)
    policy.reset("root")
    assert session.rapid == 0


def words_for_keys_of_the_base_engine(modules: Modules) -> None:
    fields = modules["compaction_breaker"].CompactionBreakerConfig.model_fields
    told = [name for name, field in fields.items() if field.description == "what the base engine allows"]
    assert len(told) == 11


def the_literal_variant_is_live_only(modules: Modules) -> None:
    assert _refusal(lambda: _refills(modules, variant="upstream-literal")) == (
        "compaction-breaker: upstream-literal is live only: a trace holds no attempt that found nothing to do; "
        'replay it with variant "ours"'
    )


def names_of_the_guards(modules: Modules) -> None:
    found = [
        modules["circuit_breaker"].CircuitBreaker.name,
        modules["loop_guard"].LoopGuard.name,
        modules["compaction_breaker"].CompactionBreaker.name,
        modules["repeat_reminder"].RepeatReminder.name,
    ]
    assert found == ["circuit-breaker", "loop-guard", "compaction-breaker", "repeat-reminder"]


def _reminder(modules: Modules, **settings: Any) -> Any:
    module = modules["repeat_reminder"]
    return module.RepeatReminder(module.RepeatReminderConfig.load(settings))


def _reminded(policy: Any, *calls: Any, agent: str = "root") -> list[tuple[int, str]]:
    """Place and text of each reminder; a call is its arguments, or a pair of a tool and arguments."""
    found = []
    for place, call in enumerate(calls, start=1):
        tool, args = call if isinstance(call, tuple) else ("x", call)
        nudge = policy.after_call(agent, tool, args, _shown(str(place)), executed=False)
        if nudge is not None:
            assert (nudge.kind, nudge.count, nudge.limit) == ("repeat", nudge.limit, nudge.count)
            found.append((place, nudge.text))
    return found


def reminders(modules: Modules) -> None:
    first, second, third = _reminded(_reminder(modules), *[{"b": "é", "a": 1.0}] * 20)
    assert first == (
        3,
        "x was called 3 times in a row with the same arguments. Look at the last result before you call again, and try "
        "something else if it does not help.",
    )
    assert second == (
        5,
        'x was called 5 times in a row with the arguments {"a":1,"b":"é"}. The calls make no progress: do not repeat '
        "this one; choose another action, other arguments, or finish.",
    )
    assert third[0] == 8
    policy = _reminder(modules, thresholds=[4, 2], argumentsPreviewChars=3)
    (_, short), (place, long) = _reminded(policy, *["😀😀"] * 5)
    assert place == 4
    assert "the same arguments" in short
    assert 'the arguments "😀… (3 more characters). The' in long
    (_, exact), *_ = _reminded(_reminder(modules, thresholds=[2, 3], argumentsPreviewChars=2), 12, 12, 12)[1:]
    assert "the arguments 12. The" in exact
    (_, more), *_ = _reminded(_reminder(modules, thresholds=[2, 3], argumentsPreviewChars=2), 123, 123, 123)[1:]
    assert "the arguments 12… (1 more characters). The" in more
    (_, cut), *_ = _reminded(_reminder(modules, thresholds=[2, 3], argumentsPreviewChars=2), "😀", "😀", "😀")[1:]
    assert 'the arguments "\ufffd… (2 more characters). The' in cut


def what_reminds(modules: Modules) -> None:
    def places(policy: Any, *calls: Any) -> list[int]:
        return [place for place, _ in _reminded(policy, *calls)]

    assert places(_reminder(modules), 1, 1, 2, 1, 1, 1) == [6]
    assert places(_reminder(modules), {1}, {1}, {1}, {1}) == []
    assert places(_reminder(modules), ("a", 1), ("b", 1), ("a", 1), ("b", 1)) == []
    assert places(_reminder(modules, exclude=["y*", "z"]), 1, ("yes", 1), 1, ("z", 1), 1) == [5]
    assert places(_reminder(modules, exclude=["y"]), 1, ("yes", 1), 1, 1) == []
    assert places(_reminder(modules, exclude=["*y"]), *[("x\ny", 1)] * 3) == [3]
    assert places(_reminder(modules, exclude=["a.c"]), *[("abc", 1)] * 3) == [3]
    for end in "\n\r\u2028\u2029":
        assert places(_reminder(modules, exclude=["a*"]), *[(f"a{end}", 1)] * 3) == [3]
    assert places(_reminder(modules, exclude=["a*"]), *[("ab", 1)] * 3) == []
    assert places(_reminder(modules, include=["x"]), ("y", 1), ("y", 1), ("y", 1), 1, 1, ("y", 1), 1) == [7]
    assert places(_reminder(modules, include=["x"], exclude=["x"]), 1, 1, 1) == []
    policy = _reminder(modules, thresholds=[2])
    assert places(policy, 1) == []
    policy.user_message("root")
    policy.user_message("never seen")
    assert places(policy, 1, 1) == [2]
    assert [place for place, _ in _reminded(policy, 1, 1, agent="s1")] == [2]


def _refused(modules: Modules, **given: Any) -> str:
    try:
        return json.dumps(modules["repeat_reminder"].RepeatReminderConfig.load(given).effective())
    except UserError as error:
        return str(error)


def settings_of_the_reminder(modules: Modules) -> None:
    assert _refused(modules) == (
        '{"thresholds": [3, 5, 8], "include": [], "exclude": [], "argumentsPreviewChars": 500}'
    )
    allowed = "allowed: a list, not empty, of distinct integers >= 2"
    for wrong in ("[]", "[1]", "[2,2]", '"2"', "[2.5]", "2"):
        assert _refused(modules, thresholds=json.loads(wrong)) == f"repeat-reminder: thresholds is {wrong}; {allowed}"
    assert '"thresholds": [2]' in _refused(modules, thresholds=[2.0])
    for key in ("include", "exclude"):
        text = f"repeat-reminder: {key} is 1; allowed: a list of texts (* stands for any characters)"
        assert _refused(modules, **{key: 1}) == text
        assert f'"{key}": ["a"]' in _refused(modules, **{key: ["a"]})
    for preview in (0, 1.5, True):
        text = f"repeat-reminder: argumentsPreviewChars is {json.dumps(preview)}; allowed: an integer >= 1"
        assert _refused(modules, argumentsPreviewChars=preview) == text
    assert '"argumentsPreviewChars": 1' in _refused(modules, argumentsPreviewChars=1)
    assert _refused(modules, more=1) == (
        'repeat-reminder: unknown key "more" (value 1); allowed keys: thresholds, include, exclude, '
        "argumentsPreviewChars"
    )


def numbers_that_traces_do_not_hold(modules: Modules) -> None:
    text = modules["json_text"].number_text
    assert [text(each) for each in (float("nan"), float("-inf"), 10**400, -(10**400), True)] == ["null"] * 4 + ["1"]
    canonical, stringify = modules["keys"].canonical, modules["json_text"].stringify
    assert canonical((1, ("a", 2.0))) == stringify((1, ("a", 2.0))) == '[1,["a",2]]'


class Word(str):
    """A text that is a word."""


def values_of_other_classes(modules: Modules) -> None:
    key = modules["keys"].call_key
    assert key(Word("t"), {Word("b"): Word("x"), "a": (1, 2)}) == key("t", {"b": "x", "a": [1, 2]})
    assert key("t", {"a": Word("\ud83d\ude00")}) == key("t", {"a": "😀"}) != key("t", {"a": "\ud83d"})
    assert key("t", {"a": 1, "b": True}) != key("t", {"a": 1, "b": 1})
    assert modules["json_text"].string_text(Word("é\ud83d")) == '"é\\ud83d"'


def what_the_quick_writer_takes(modules: Modules) -> None:
    value: Any
    ordered, unusual = modules["keys"]._ordered, modules["keys"]._Unusual
    for value in (*("a", True, None, 2**53, -(2**53), [2**53], {"b": [1, {"a": None}], "a": -1}), [[[[1]]]]):
        assert ordered(value, 4) == value
    assert list(ordered({"b": 1, "\uffff": 2, "😀": 3, "a": 4}, 1)) == ["a", "b", "😀", "\uffff"]
    for value in (
        2**53 + 1,
        -(2**53) - 1,
        1.0,
        float("nan"),
        (1,),
        Word("a"),
        {1: 2},
        {Word("a"): 1},
        [[[[[1]]]]],
        {1},
    ):
        try:
            ordered(value, 4)
        except unusual:
            continue
        raise AssertionError(f"{value} was taken")
    deep: Any = 1
    for _ in range(5):
        deep = {"a": deep}
    try:
        ordered(deep, 4)
    except unusual:
        return
    raise AssertionError("it was taken")


def what_is_no_json_value(modules: Modules) -> None:
    key = modules["keys"].call_key
    ring: dict[str, Any] = {}
    ring["self"] = [ring]
    for args in ({1}, {"a": b"x"}, {1: 2}, {"a": 1, None: 2}, {"a": [object()]}, ring, {"a": {1: 2}}):
        assert key("t", args) is None, args
    shared = {"b": 1}
    assert modules["keys"].canonical([shared, {"a": shared}]) == '[{"b":1},{"a":{"b":1}}]'
    for wrong, text in zip(({1: 2}, {1, 2}, ring), _REFUSALS, strict=True):
        assert _refusal(partial(modules["json_text"].stringify, wrong)) == text


_REFUSALS = (
    "an object's name must be a string, not int",
    "set is no JSON value",
    "a value that holds itself is no JSON value",
)


def values_of_a_configuration(modules: Modules) -> None:
    load = modules["loop_guard"].LoopGuardConfig.load
    assert load({"softThreshold": 2.0, "hardThreshold": 1e3}).effective() == {
        "softThreshold": 2,
        "hardThreshold": 1000,
        "resultHashChars": 4000,
    }
    config = load({})
    try:
        config.soft_threshold = 9
    except ValueError:
        pass
    else:
        raise AssertionError("a configuration was changed")
    for wrong, shown in (
        ({1, 2}, "{1, 2}"),
        ("x" * 300, '"' + "x" * 199 + "..."),
        ("x" * 199, '"' + "x" * 199 + "..."),
        ("x" * 198, f'"{"x" * 198}"'),
    ):
        text = f"loop-guard: softThreshold is {shown}; allowed: an integer >= 0 (0 = no nudges)"
        assert _refusal(partial(load, {"softThreshold": wrong})) == text


_UNITS: dict[str, list[Unit]] = {
    "json_text": [numbers_that_traces_do_not_hold],
    "keys": [what_the_quick_writer_takes, values_of_other_classes, what_is_no_json_value],
    "config": [values_of_a_configuration],
    "circuit_breaker": [
        *(arguments_that_are_no_json, calls_that_are_stopped_elsewhere, the_cap_at_defaults),
        *(the_memory_is_as_large_as_the_window, what_is_forgotten_one_by_one, incidents, a_log_that_can_not_be_written),
    ],
    "loop_guard": [
        *(results_that_are_no_json, a_denial_needs_a_key, messages_of_errors, results_that_are_cut, other_agents),
        fresh_states,
    ],
    "compaction_breaker": [a_session_by_hand, words_for_keys_of_the_base_engine, the_literal_variant_is_live_only],
    "repeat_reminder": [fresh_states, reminders, what_reminds, settings_of_the_reminder],
}
for _checks in _UNITS.values():
    _checks.append(names_of_the_guards)
