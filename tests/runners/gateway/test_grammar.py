"""Grammar expressions as GBNF text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.gateway.conversation import Tool
from runners.gateway.dialects.registry import NAMES, dialect
from runners.gateway.grammar import Alt, Grammar, Ref, Repeat, Rules, Seq, Terminal, alt, literal, opt, seq
from tests.runners.gateway.dialects.llama_grammar import ByteVocabulary


def test_text_of_expressions() -> None:
    rules = Rules()
    rules.add("a", alt((literal("x"), seq("y", Repeat(Terminal("[0-9]"), 1), Repeat(Ref("a"), 0, 3)))))
    assert rules.gbnf(seq(Ref("a"), opt("z", "!"), Repeat(literal("w"), 2), Seq())) == (
        'root ::= a ("z" "!")? "w"{2,}\na ::= "x" | ("y" [0-9]+ a{0,3})\n'
    )


def test_what_can_not_end_is_cut_out() -> None:
    rules = Rules()
    rules.add("endless", seq("a", Ref("endless")))
    rules.add("mutual", seq("b", Ref("other")))
    rules.add("other", seq("c", Ref("mutual")))
    root = seq(
        "<", alt((Ref("endless"), literal("x"), Ref("mutual"), Alt())), Repeat(Ref("endless")), opt(Ref("other")), ">"
    )
    assert rules.gbnf(root) == 'root ::= "<" "x" ">"\n'
    with pytest.raises(ValueError, match="nothing finite"):
        rules.gbnf(Ref("endless"))


def test_rules_that_nothing_needs_are_left_out() -> None:
    rules = Rules()
    rules.add("used", literal("x"))
    rules.add("unused", literal("y"))
    assert rules.gbnf(Ref("used")) == 'root ::= used\nused ::= "x"\n'


def test_digest_covers_text_and_triggers() -> None:
    grammars = [Grammar("a"), Grammar("b"), Grammar("a", ("b",)), Grammar("a", ("b", "c")), Grammar("a", ("bc",))]
    assert len({grammar.digest for grammar in grammars}) == 5
    assert Grammar("a").digest == Grammar("a").digest
    assert re.fullmatch("[0-9a-f]{64}", Grammar("a").digest)


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
def test_a_literal_matches_its_text_and_nothing_else(vocabulary: ByteVocabulary, text: str) -> None:
    gbnf = Rules().gbnf(seq("<", literal(text), ">"))
    assert vocabulary.verdict(gbnf, f"<{text}>") == "complete"
    assert vocabulary.verdict(gbnf, f"<{text}") == "unfinished"
    assert vocabulary.verdict(gbnf, f"<{text}~>") == "refused"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["lazy", "forced"])
def test_grammars_depend_on_the_tools_alone(name: str, mode: str) -> None:
    tools = [Tool("a", "what it does", {"type": "object"}), Tool("b", "", {"properties": {"x": {"type": "integer"}}})]
    one, same = dialect(name).grammar(tools, mode), dialect(name).grammar(list(tools), mode)
    assert one == same
    assert one is not None
    assert one.digest != dialect(name).grammar(tools[:1], mode).digest
    assert bool(one.triggers) is (mode == "lazy")
    assert dialect(name).grammar([], mode) is None
