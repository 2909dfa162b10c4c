"""Changes to Python source: each comparison, operator, constant, condition, update and return in turn."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterator
from itertools import pairwise

from tests.guards.mutation.mutant import Change, Mutant, mutants

COMPARISONS = {
    **{"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)},
    **{"in": ("not in",), "not in": ("in",), "is": ("is not",), "is not": ("is",)},
}
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "%": "*", "|": "&", "**": "*"}
STATEMENTS = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.Delete, ast.Raise, ast.Continue, ast.Break)


def python_mutants(file: str, source: str, skipped: Collection[str] = ()) -> list[Mutant]:
    """All mutants of a file, but for top-level functions, classes and names in `skipped`.

    Left alone are docstrings, annotations, imports and decorators, which decide nothing at run time.
    """
    return list(mutants(file, source, _Changes(source, skipped).all()))


class _Changes:
    def __init__(self, source: str, skipped: Collection[str]) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = source.splitlines()
        self._body = [node for node in ast.parse(source).body if not _names(node) & set(skipped)]
        self._texts = self._text_tokens()

    def all(self) -> Iterator[Change]:
        for node in self._body:
            yield from self._of(node, inside=False)

    def _of(self, node: ast.AST, inside: bool) -> Iterator[Change]:
        """The changes of a node and what is in it; `inside` a function, where statements can go."""
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            return
        yield from self._own(node)
        if inside and isinstance(node, STATEMENTS) and not isinstance(node, ast.Return):
            yield Change(*self._span(node), "pass")
        if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield Change(*self._span(node), "return None")
        inside = inside or isinstance(node, ast.FunctionDef | ast.Lambda)
        for name, child in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "bases"):
                for each in child if isinstance(child, list) else [child]:
                    if isinstance(each, ast.AST) and not self._typed_assignment(node, name):
                        yield from self._of(each, inside)

    def _typed_assignment(self, node: ast.AST, name: str) -> bool:
        """`ClassVar[...]`, `Annotated[...]` and such at the top are types, not values."""
        return isinstance(node, ast.Subscript) and name == "slice" and "Annotated" in ast.unparse(node.value)

    def _own(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, right in pairwise(sides):
                start, end = self._gap(left, right)
                for after in COMPARISONS[" ".join(self._source[start:end].split())]:
                    yield Change(start, end, after)
        elif isinstance(node, ast.BoolOp):
            for left, right in pairwise(node.values):
                start, end = self._gap(left, right)
                yield Change(start, end, "or" if self._source[start:end] == "and" else "and")
        elif isinstance(node, ast.BinOp):
            start, end = self._gap(node.left, node.right)
            yield Change(start, end, ARITHMETIC[self._source[start:end]])
        elif isinstance(node, ast.AugAssign):
            start, end = self._gap(node.target, node.value)
            yield Change(start, end, {"+=": "-=", "-=": "+="}[self._source[start:end]])
        elif isinstance(node, ast.UnaryOp):
            start, end = self._at(node.lineno, node.col_offset), self._span(node.operand)[0]
            yield Change(start, end, "")
        elif isinstance(node, ast.If | ast.While | ast.IfExp | ast.comprehension):
            for test in node.ifs if isinstance(node, ast.comprehension) else [node.test]:
                if not isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
                    start, end = self._span(test)
                    yield Change(start, end, f"(not ({self._source[start:end]}))")
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            yield from self._constant(node)

    def _constant(self, node: ast.Constant | ast.JoinedStr) -> Iterator[Change]:
        start, end = self._span(node)
        if isinstance(node, ast.JoinedStr) or isinstance(node.value, str | bytes):
            for begun, text in self._texts.items():
                if start <= begun < end:
                    quote = re.match(r"[a-zA-Z]*(\"\"\"|'''|\"|')", text)
                    assert quote is not None
                    yield Change(begun, begun + len(text), f"{quote[0]}Z{text[quote.end() :]}")
        elif isinstance(node.value, bool):
            yield Change(start, end, str(not node.value))
        elif isinstance(node.value, int | float):
            yield Change(start, end, str(node.value + 1))
        elif node.value is None:
            yield Change(start, end, "0")

    def _gap(self, left: ast.expr, right: ast.expr) -> tuple[int, int]:
        """The span of the operator between two operands, without brackets."""
        start, end = self._span(left)[1], self._span(right)[0]
        match = re.search(r"[^\s()\\](?:.*[^\s()\\])?", self._source[start:end], re.DOTALL)
        assert match is not None
        return start + match.start(), start + match.end()

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        """The place in the source of a line and a column in UTF-8 bytes."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return self._starts[line - 1] + len(text.encode()[:column].decode())

    def _text_tokens(self) -> dict[int, str]:
        found = {}
        for token in tokenize.generate_tokens(io.StringIO(self._source).readline):
            if token.type == tokenize.STRING:
                found[self._starts[token.start[0] - 1] + token.start[1]] = token.string
        return found


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {node.target.id} if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else set()


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
