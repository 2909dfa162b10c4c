"""The Jinja environment in which a stranger's chat template runs: no way out, and an end to everything it starts.

A GGUF file carries its chat template, so a template is untrusted code. Jinja's own immutable sandbox keeps it from
Python's internals; this module bounds what is left: loop iterations and calls (steps), the characters that it writes,
the size of any value that it makes, recursion, and wall time. Every string operation that can grow faster than its
operands is predicted before it runs; what nobody uses in chat templates and can not be predicted is left out.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes
from jinja2.ext import LoopControlExtension
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from runners.gateway.template_budget import INT_BITS, Budget

FILTER_INT = 100_000
FORMAT_WIDTH = 999

_STR_METHODS = frozenset(
    """capitalize casefold count endswith find format index isalnum isalpha isdecimal isdigit islower isnumeric isspace
    istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip
    split splitlines startswith strip swapcase title upper""".split()  # noqa: SIM905
)
_FILTERS = frozenset(
    """abs attr batch capitalize count d default dictsort e escape first float groupby indent int items join last length
    list lower map max min reject rejectattr replace reverse round safe select selectattr sort string sum title trim
    unique upper""".split()  # noqa: SIM905
)
_WIDE_PERCENT = re.compile(r"%[^%a-zA-Z]*(?:\d{4,}|\*)")
_WIDE_BRACES = re.compile(r"\{[^{}]*(?::[^{}]*\d{4,}|\{)")


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """Chat-template flavour of Jinja (trimmed blocks, loop controls, `{% generation %}`) under a `Budget`.

    Compile and render only inside `spend(budget)`. One environment may be used by several threads.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, extensions: list[type]) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[LoopControlExtension, *extensions])
        self._local = threading.local()
        del self.globals["lipsum"]
        self.filters = {name: self._guarded(name, FILTERS[name]) for name in _FILTERS}
        self.filters |= {"-tick": self._tick, "-emit": self._emit, "-join": self._concat, "-size": self._sized}

    @property
    def budget(self) -> Budget:
        budget: Budget = self._local.budget
        return budget

    def spend(self, budget: Budget) -> None:
        """From now on, in this thread, everything is charged to `budget`."""
        self._local.budget = budget

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        self.filters[name] = self._guarded(name, function)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        guarded: nodes.Template = _Guard().visit(tree)
        return guarded.set_environment(self)  # type: ignore[return-value]

    # What the rewritten tree calls. pass_context keeps Jinja from running them at compile time.

    @pass_context
    def _tick(self, context: Context, value: Any) -> Any:
        self.budget.step()
        return value

    @pass_context
    def _emit(self, context: Context, value: Any) -> str:
        return self.budget.emit(self.budget.text(value))

    @pass_context
    def _concat(self, context: Context, values: list[Any]) -> str:
        parts = [self.budget.text(value) for value in values]
        self.budget.allow(sum(map(len, parts)))
        return "".join(parts)

    @pass_context
    def _sized(self, context: Context, value: Any) -> Any:
        self.budget.measure(value)
        return value

    # What the sandbox asks.

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _STR_METHODS
        if isinstance(obj, (int, float, bytes)):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = self.budget
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, (str, list, tuple)) and isinstance(other, int):
                    budget.allow(budget.measure(one) * max(other, 0))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            if left.bit_length() * abs(right) > INT_BITS:
                raise budget.cross(f"an integer of more than {INT_BITS} bits")
        elif operator == "%" and isinstance(left, str):
            if _WIDE_PERCENT.search(left):
                raise budget.cross(f"a format width of more than {FORMAT_WIDTH}")
            budget.allow(len(left) + left.count("%") * (FORMAT_WIDTH + budget.measure(right)))
        result = super().call_binop(context, operator, left, right)
        if operator in "+*":
            budget.measure(result)
        return result

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None or value.__name__ != "format":
            return None  # format_map falls to is_safe_attribute, which refuses it
        pattern: str = value.__self__

        def bounded(*args: Any, **kwargs: Any) -> str:
            if _WIDE_BRACES.search(pattern):
                raise self.budget.cross(f"a format width of more than {FORMAT_WIDTH}, or one from an argument")
            size = FORMAT_WIDTH + self.budget.measure([*args, *kwargs.values()])
            self.budget.allow(len(pattern) + pattern.count("{") * size)
            return wrapped(*args, **kwargs)

        return bounded

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = __self.budget
        budget.step()
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            args = tuple(_listed(argument) for argument in args)
            _predict(budget, __obj.__name__, owner, args, kwargs)
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, (str, list, tuple, dict)):
            budget.allow(len(result))
        return result

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        wants = getattr(getattr(function, "jinja_pass_arg", None), "name", None)

        @pass_context
        def guarded(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
            budget = self.budget
            budget.step()
            for argument in (*args, *kwargs.values()):
                if isinstance(argument, int) and abs(argument) > FILTER_INT:
                    raise budget.cross(f"a filter argument of more than {FILTER_INT}")
            if name in ("join", "string"):
                value = _listed(value)
                budget.measure(value)
            elif name == "sum" and not isinstance(kwargs.get("start", args[1] if len(args) > 1 else 0), (int, float)):
                raise budget.cross("a sum of something other than numbers")
            _predict(budget, name, value, args, kwargs)
            passed = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (self,)}
            result = function(*passed.get(wants or "", ()), value, *args, **kwargs)
            if isinstance(result, (str, list, tuple, dict)):
                budget.allow(len(result))
            return result

        return guarded


def _listed(value: Any) -> Any:
    """Iterators become lists, so that they can be measured before they are used."""
    return list(value) if hasattr(value, "__next__") else value


def _predict(budget: Budget, name: str, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises if `value.name(...)` or `value | name(...)`, equal for these names, would make too large a text.

    `join` is `separator.join(items)` as a method and `items | join(separator)` as a filter.
    """
    if name == "join":
        items, separator = (args[0] if args else (), value) if isinstance(value, str) and args else (value, "")
        if not isinstance(value, str):
            separator = args[0] if args else kwargs.get("d", "")
        budget.allow(budget.measure(items) + len(items) * len(budget.text(separator)))
    elif name == "replace":
        text = budget.text(value)
        old = budget.text(args[0] if args else kwargs.get("old", kwargs.get("s", "")))
        new = budget.text(args[1] if len(args) > 1 else kwargs.get("new", ""))
        budget.allow(len(text) + (text.count(old) if old else len(text) + 1) * len(new))
    elif name == "indent":
        width = args[0] if args else kwargs.get("width", 4)
        budget.allow((len(budget.text(value).splitlines()) + 1) * (width if isinstance(width, int) else len(width)))


class _Guard(NodeTransformer):
    """Puts ticks into loops and macros, and measures what is printed, concatenated and built."""

    def _ticked(self, node: Any) -> Any:
        node = self.generic_visit(node)
        node.body.insert(0, nodes.ExprStmt(_filter(nodes.Const(None), "-tick"), lineno=node.lineno))
        return node

    visit_For = visit_Macro = visit_CallBlock = _ticked

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        self.generic_visit(node)
        node.nodes = [
            _filter(nodes.Const(child.data) if isinstance(child, nodes.TemplateData) else child, "-emit")
            for child in node.nodes
        ]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes), "-join")

    def _measured(self, node: Any) -> nodes.Node:
        self.generic_visit(node)
        built: nodes.Expr = node
        constant = all(isinstance(child, nodes.Const) for child in node.iter_child_nodes())
        return built if constant or getattr(node, "ctx", "load") != "load" else _filter(built, "-size")

    visit_List = visit_Tuple = visit_Dict = _measured


def _filter(node: nodes.Expr, name: str) -> nodes.Filter:
    """A filter application; the names used here have a hyphen, which no template can write as a filter."""
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
