"""Chat templates: rendered as transformers does, and bounded when they are hostile."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.errors import UserError
from runners.gateway.template import ChatTemplate, TemplateRefusal
from runners.gateway.template_budget import BASE_SIZE, STEPS, TemplateLimit

HELLO = [{"role": "user", "content": "Hello"}]


def render(source: str, messages: list[dict[str, object]] | None = None, **extra: object) -> str:
    return ChatTemplate(source, "<s>", "</s>", name="m").render(HELLO if messages is None else messages, **extra)


def test_blocks_are_trimmed_as_transformers_trims_them() -> None:
    source = (
        "{% for m in messages %}\n    {% if true %}\n{{ m.role }}: {{ m['content'] }}\n    {% endif %}\n{% endfor %}"
    )
    assert render(source) == "user: Hello\n"


def test_variables() -> None:
    source = "{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}|{{ tools is none }}|{{ more }}|{{ unknown }}"
    assert render(source, more=7) == "<s>|</s>|True|True|7|"
    assert ChatTemplate("{{ tools|length }}").render(HELLO, [{"a": 1}, {"b": 2}]) == "2"
    assert ChatTemplate("{{ add_generation_prompt }}").render([], add_generation_prompt=False) == "False"


def test_loop_controls_and_generation_tag() -> None:
    source = (
        "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    )
    assert render(source) == "013"
    assert render("a{% generation %}{{ messages[0].content }}{% endgeneration %}b") == "aHellob"


def test_macros_recursion_namespaces_and_slices() -> None:
    source = (
        "{% macro show(n) %}{% if n %}{{ n }}{{ show(n - 1) }}{% endif %}{% endmacro %}{{ show(3) }}"
        "{% set ns = namespace(all=[]) %}{% for m in messages[::-1] %}{% set ns.all = ns.all + [m.role] %}{% endfor %}"
        "{{ ns.all }}"
    )
    assert render(source) == "321['user']"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ x|tojson }}", '{"b": "é<>&\'", "a": [1, null]}'),
        ("{{ x|tojson(indent=2) }}", '{\n  "b": "é<>&\'",\n  "a": [\n    1,\n    null\n  ]\n}'),
        ("{{ x|tojson(separators=(',', ':')) }}", '{"b":"é<>&\'","a":[1,null]}'),
        ("{{ x|tojson(ensure_ascii=true, sort_keys=true) }}", '{"a": [1, null], "b": "\\u00e9<>&\'"}'),
    ],
)
def test_tojson_is_plain_json(source: str, expected: str) -> None:
    assert render(source, x={"b": "é<>&'", "a": [1, None]}) == expected


def test_strftime_now_stands_still() -> None:
    assert render("{{ strftime_now('%d %B %Y, %H:%M') }}") == "01 January 2025, 12:00"


@pytest.mark.parametrize("source", ["{{ [1, 2, 3]|random }}", "{{ lipsum() }}", "{{ messages|map('upper') }}"])
def test_nothing_volatile_can_be_printed(source: str) -> None:
    with pytest.raises(UserError):
        render(source)


def test_refusal_carries_the_templates_words() -> None:
    with pytest.raises(
        TemplateRefusal, match="chat template m refuses the conversation: roles must alternate"
    ) as caught:
        render("{{ raise_exception('roles must\nalternate') }}")
    assert caught.value.reason == "roles must\nalternate"


def test_digest_is_of_the_source() -> None:
    assert ChatTemplate("é").digest == hashlib.sha256("é".encode()).hexdigest()


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("{% for x in %}", "does not compile"),
        ("{{ 'a'|urlize }}", "No filter named 'urlize'"),
        ("{% include 'x' %}", "fails"),
        ("{{ 1 // 0 }}", "fails"),
        ("{{ nothing.at.all }}", "'nothing' is undefined"),
        ("{{ messages[0].content + 1 }}", "fails"),
    ],
)
def test_a_broken_template_is_one_clear_line(source: str, word: str) -> None:
    with pytest.raises(UserError) as caught:
        render(source)
    assert word in str(caught.value)
    assert "template m" in str(caught.value)
    assert "\n" not in str(caught.value)


ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{{ raise_exception.__globals__['__builtins__'] }}",
    "{{ strftime_now.__globals__ }}{{ strftime_now.__code__.co_code }}",
    "{{ (messages|attr('__class__'))|string }}{{ (messages|attr('__class__')).__mro__ }}",
    "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "{{ '{x.__class__}'.format_map({'x': 1}) }}",
    "{{ namespace.__init__.__globals__.os }}",
    "{{ self.__init__.__globals__ }}{{ self._TemplateReference__context.environment.budget }}",
    "{% macro f() %}{% endmacro %}{{ f.__func__ }}{{ f._func.__globals__ }}",
    "{{ messages|map(attribute='__class__')|list }}{{ messages.append(1) }}",
    "{{ messages.clear() }}",
    "{{ messages[0].update({'content': 'x'}) }}",
    "{{ cycler.__init__.__globals__.os.system('x') }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_no_way_out_of_the_sandbox(source: str) -> None:
    messages: list[dict[str, object]] = [{"role": "user", "content": "Hello"}]
    try:
        text = render(source, messages)
    except UserError:
        text = ""
    assert not any(word in text for word in ("class", "function", "module", "object at", "builtins", "code", "os"))
    assert messages == [{"role": "user", "content": "Hello"}]


DOUBLING = "{% set ns = namespace(x=START) %}{% for i in range(200) %}{% set ns.x = STEP %}{% endfor %}{{ ns.x }}"


def doubling(start: str, step: str) -> str:
    return DOUBLING.replace("START", start).replace("STEP", step)


HOSTILE = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "{% for a in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
    "{% for a in range(99999) %}" + "text " * 2000 + "{% endfor %}",
    "{% set x %}{% for a in range(99999) %}" + "text " * 2000 + "{% endfor %}{% endset %}",
    "{% macro f() %}" + "text " * 20000 + "{% endmacro %}{% for a in range(99999) %}{% set x = f() %}{% endfor %}",
    doubling("'ab'", "ns.x ~ ns.x"),
    doubling("'ab'", "ns.x + ns.x"),
    doubling("'ab'", "ns.x * 2"),
    doubling("'ab'", "'%s%s' % (ns.x, ns.x)"),
    doubling("'ab'", "'{0}{0}'.format(ns.x)"),
    doubling("'ab'", "[ns.x, ns.x]|join"),
    doubling("'ab'", "''.join([ns.x, ns.x])"),
    doubling("'ab'", "ns.x.replace('a', 'aa')"),
    doubling("'ab'", "ns.x|replace('b', 'bb')"),
    doubling("[1]", "[ns.x, ns.x]"),
    doubling("[1]", "(ns.x, ns.x)"),
    doubling("[1]", "{'a': ns.x, 'b': ns.x}"),
    doubling("[1]", "ns.x + ns.x"),
    doubling("[1]", "[ns.x] * 2"),
    doubling("2", "ns.x * ns.x"),
    doubling("namespace()", "namespace(a=ns.x, b=ns.x)"),
    "{{ 'a' * 10 ** 10 }}",
    "{{ [1] * 10 ** 10 }}",
    "{{ 10 ** 10 ** 5000 }}",
    "{{ (2 ** 10000) ** 2 }}",
    "{{ 'x'.center(10 ** 9) }}",
    "{{ 'x'.ljust(10 ** 9) }}",
    "{{ 'x'.zfill(10 ** 9) }}",
    "{{ '\t'.expandtabs(10 ** 9) }}",
    "{{ 'x'|center(10 ** 9) }}",
    "{{ (1).to_bytes(10 ** 9, 'big') }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10 ** 9, 1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{}}'.format(1, 10 ** 9) }}",
    "{{ '{0:{1}}'.format(1, 10 ** 9) }}",
    "{{ ('a' * 999999)|replace('', 'b' * 999999) }}",
    "{{ ('a' * 999999)|replace('a', 'b' * 999999) }}",
    "{{ ('a' * 999999).replace('a', 'b' * 999999) }}",
    "{{ range(99999)|join('b' * 999999) }}",
    "{{ ('b' * 999999).join(('a ' * 99999).split()) }}",
    "{{ ('\n' * 99999)|indent(99999) }}",
    "{{ ('\n' * 99999)|indent('x' * 99999) }}",
    "{{ messages|tojson(indent=10 ** 9) }}",
    "{{ ([[[1]]] * 9999)|tojson(indent='x' * 999999) }}",
    "{{ 1.5|round(10 ** 9, 'ceil') }}",
    "{{ messages|batch(10 ** 9, 0)|list }}",
    "{{ range(10 ** 9)|list }}",
    "{% set x = namespace() %}{% set x.x = [x] %}{{ [x] }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 5000 + "1" + "]" * 5000 + " }}",
    "{% if true %}" * 3000 + "{% endif %}" * 3000,
    "{{ 1" + " + 1" * 20000 + " }}",
    " " * 300_000,
]


@pytest.mark.parametrize("source", HOSTILE, ids=lambda source: source[:60])
def test_hostile_templates_end_in_one_line(source: str) -> None:
    with pytest.raises(UserError, match=r"^chat template m\b[^\n]*$"):
        render(source)


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        (HOSTILE[0], f"{STEPS} steps"),
        (HOSTILE[4], "characters of output"),
        ("{{ 'a' * 10 ** 10 }}", "a value of more than"),
        ("{{ 10 ** 10 ** 5000 }}", "an integer of more than"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion too deep"),
    ],
)
def test_the_limit_is_named(source: str, limit: str) -> None:
    with pytest.raises(TemplateLimit, match=limit):
        render(source)


def test_limits_grow_with_the_conversation() -> None:
    text = "x" * (2 * BASE_SIZE)
    assert (
        render("{% for m in messages %}{{ m.content }}{% endfor %}", [{"role": "user", "content": text}] * 3)
        == text * 3
    )


def test_a_long_conversation_is_no_attack() -> None:
    source = (
        "{% set ns = namespace(seen=[]) %}{% for m in messages %}{% set ns.seen = ns.seen + [m] %}"
        "{% set text %}{{ m.content|trim }}{% endset %}{{ '<' ~ m.role ~ '>' + text }}{% endfor %}{{ ns.seen|length }}"
    )
    messages = [{"role": "user", "content": " word" * 200}] * 1000
    assert render(source, messages).endswith("word1000")


def test_threads_do_not_share_a_budget() -> None:
    template = ChatTemplate("{% for m in messages %}{% for i in range(9000) %}{% endfor %}{{ m.content }}{% endfor %}")
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda n: template.render([{"content": str(n)}] * 4), range(12)))
    assert texts == [str(n) * 4 for n in range(12)]


@given(st.text(), st.text())
def test_content_is_printed_as_it_is(content: str, other: str) -> None:
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": other}]
    assert render("{% for m in messages %}{{ m.content }}|{{ m.content ~ 1 }}|{% endfor %}", messages) == (
        f"{content}|{content}1|{other}|{other}1|"
    )
