"""Numbers between bounds as grammar rules."""

from __future__ import annotations

import math

from runners.gateway.grammar import Alt, Expr, Seq, Terminal, alt, literal, seq

_DIGITS = 15
_MOST = 10**_DIGITS - 1
_FRACTION = Terminal(r'"." [0-9]{1,15}')


def integer_rule(low: float | None, high: float | None) -> Expr:
    """Integers from `low` to `high`, both inclusive (None: no bound, 15 digits). Matches nothing when there is none."""
    low, high = -_MOST if low is None else math.ceil(low), _MOST if high is None else math.floor(high)
    if (low, high) == (-_MOST, _MOST):
        return seq(Terminal('"-"?'), _naturals(0, _MOST))
    found = []
    if high >= 0 and low <= high:
        found.append(_naturals(max(low, 0), high))
    if low < 0 and low <= high:
        found.append(seq("-", _naturals(max(1, -high), -low)))
    return alt(found)


def number_rule(low: float | None, high: float | None) -> Expr:
    """Numbers from `low` to `high`, both inclusive (None: no bound), without an exponent when there is a bound.

    A range without an integer in it is not enforced.
    """
    if low is None and high is None:
        return seq(integer_rule(None, None), Terminal(r'("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?'))
    least, most = -_MOST if low is None else low, _MOST if high is None else high
    found = [integer_rule(least, most)]
    if (first := max(0, math.ceil(least))) <= (last := math.floor(most) - 1):
        found.append(seq(_naturals(first, last), _FRACTION))
    if (first := max(0, math.ceil(-most))) <= (last := math.floor(-least) - 1):
        found.append(seq("-", _naturals(first, last), _FRACTION))
    return alt(found) if math.ceil(least) <= math.floor(most) else number_rule(None, None)


def _naturals(low: int, high: int) -> Expr:
    """Decimal numbers from `low` to `high` without leading zeros, 0 <= low <= high."""
    if (low, high) == (0, _MOST):
        return Terminal(r'("0" | [1-9] [0-9]{0,14})')
    found = []
    for digits in range(len(str(low)), len(str(high)) + 1):
        first, last = max(low, 10 ** (digits - 1) if digits > 1 else 0), min(high, 10**digits - 1)
        found.append(_same_length(str(first), str(last)))
    return alt(found)


def _same_length(first: str, last: str) -> Expr:
    if not first:
        return Seq()
    if set(first) == {"0"} and set(last) == {"9"}:
        return Terminal("[0-9]" if len(first) == 1 else f"[0-9]{{{len(first)}}}")
    if first[0] == last[0]:
        return seq(first[0], _same_length(first[1:], last[1:]))
    tail = len(first) - 1
    low, high = int(first[0]), int(last[0])
    found: list[Expr] = []
    if set(first[1:]) - {"0"}:
        found.append(seq(first[0], _same_length(first[1:], "9" * tail)))
        low += 1
    partial = bool(set(last[1:]) - {"9"})
    middle = high - 1 if partial else high
    if low <= middle:
        found.append(seq(Terminal(f"[{low}-{middle}]"), _same_length("0" * tail, "9" * tail)))
    if partial:
        found.append(seq(literal(last[0]), _same_length("0" * tail, last[1:])))
    return alt(found) if found else Alt()
