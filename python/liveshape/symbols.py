"""The symbols of an exported program: what they are called, where they enter, what they may be.

People name a symbol by its Dim (`S`), by torch's name (`s77`), or by where it enters
(`input_ids.1`). torch stores only the second, so `liveshape.save` records the first beside the
graph and this table answers for all three.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

NAMES_FILE = "liveshape.json"


class ShapeError(ValueError):
    """A live shape that the program cannot have; the message says which symbol and why."""


@dataclass(frozen=True)
class Entry:
    """One place where a size enters: dim `dim` of tensor `name`, or the integer `name` itself."""

    name: str
    dim: int | None
    expr: sympy.Expr

    @property
    def place(self) -> str:
        return self.name if self.dim is None else f"{self.name}.{self.dim}"


def as_expr(size: Any) -> sympy.Expr:
    """An int or SymInt as sympy sees it."""
    return size.node.expr if hasattr(size, "node") else sympy.Integer(int(size))


def user_inputs(ep: Any) -> list[tuple[str, Any]]:
    """(placeholder name, meta value) of the inputs a caller gives, in order.

    Constant inputs (None, a baked string) take a position in the signature, but carry no data.
    """
    kinds = type(ep.graph_signature.input_specs[0].kind) if ep.graph_signature.input_specs else None
    placeholders = [node for node in ep.graph.nodes if node.op == "placeholder"]
    return [
        (node.name, node.meta["val"])
        for node, spec in zip(placeholders, ep.graph_signature.input_specs, strict=True)
        if spec.kind == kinds.USER_INPUT and type(spec.arg).__name__ != "ConstantArgument"
    ]


class SymbolTable:
    """Resolves names of symbols, solves live shapes into values and values into input shapes."""

    def __init__(self, ep: Any, dim_names: Mapping[str, str] | None = None):
        self.inputs = dict(user_inputs(ep))
        self.dim_names = dict(dim_names or {})
        self.entries = [
            Entry(name, dim, as_expr(size))
            for name, value in self.inputs.items()
            for dim, size in (
                enumerate(value.shape) if hasattr(value, "shape") else [(None, value)]
            )
        ]
        found = {s for entry in self.entries for s in entry.expr.free_symbols}
        self.symbols = sorted(found, key=self._first_entry)
        self.ranges = {str(key): bounds for key, bounds in ep.range_constraints.items()}

    @staticmethod
    def names_in(extra: str) -> dict[str, str]:
        """Dim names out of the text of extra/liveshape.json ('' where there is none)."""
        return json.loads(extra).get("symbols", {}) if extra else {}

    def call(self, symbol: sympy.Symbol) -> str:
        """The name to show: the Dim's where known, else torch's."""
        return self.dim_names.get(str(symbol), str(symbol))

    def describe(self, symbol: sympy.Symbol) -> str:
        places = ", ".join(e.place for e in self.entries if e.expr == symbol) or "no plain dim"
        return f"`{self.call(symbol)}` (torch {symbol}, enters at {places})"

    def resolve(self, key: str) -> sympy.Expr:
        """The expression that a name stands for; `x.0` may stand for `2*s47`."""
        for symbol in self.symbols:
            if key in (str(symbol), self.dim_names.get(str(symbol))):
                return symbol
        for entry in self.entries:
            if key == entry.place:
                return entry.expr
        known = ", ".join(self.describe(s) for s in self.symbols) or "none: the model is static"
        raise ShapeError(f"no symbol is called `{key}`; symbols: {known}")

    def solve(self, point: Mapping[str, int]) -> dict[sympy.Symbol, int]:
        """Every symbol's value at a point; refuses contradictions and symbols without a value."""
        facts = [(key, self.resolve(key), value) for key, value in point.items()]
        values = self._solve_facts(facts)
        missing = [self.describe(s) for s in self.symbols if s not in values]
        if missing:
            raise ShapeError(f"point {dict(point)} gives no value for {'; '.join(missing)}")
        return values

    def solve_inputs(self, given: Mapping[str, Any]) -> dict[sympy.Symbol, int]:
        """Every symbol's value as the shapes of real inputs imply it."""
        facts = []
        for name, meta in self.inputs.items():
            if name not in given:
                raise ShapeError(f"input `{name}` is missing; given: {', '.join(given) or 'none'}")
            if not hasattr(meta, "shape"):
                facts.append((name, as_expr(meta), int(given[name])))
                continue
            shape = tuple(given[name].shape)
            if len(shape) != len(meta.shape):
                raise ShapeError(f"input `{name}` has rank {len(shape)}, want {len(meta.shape)}")
            pairs = enumerate(zip(meta.shape, shape, strict=True))
            facts += [(f"{name}.{i}", as_expr(size), live) for i, (size, live) in pairs]
        unknown = set(given) - set(self.inputs)
        if unknown:
            raise ShapeError(f"no input is called {sorted(unknown)}; inputs: {list(self.inputs)}")
        return self._solve_facts(facts)

    def shapes(self, values: Mapping[sympy.Symbol, int]) -> dict[str, tuple[int, ...] | int]:
        """Live shape of each tensor input, live value of each integer input."""
        sizes = {e.place: int(e.expr.xreplace(_integers(values))) for e in self.entries}
        return {
            name: tuple(sizes[f"{name}.{i}"] for i in range(len(meta.shape)))
            if hasattr(meta, "shape")
            else sizes[name]
            for name, meta in self.inputs.items()
        }

    def named(self, values: Mapping[sympy.Symbol, int]) -> dict[str, int]:
        return {self.call(s): values[s] for s in self.symbols}

    def _first_entry(self, symbol: sympy.Symbol) -> tuple[int, str]:
        places = (i for i, e in enumerate(self.entries) if symbol in e.expr.free_symbols)
        return (next(places), str(symbol))

    def _solve_facts(self, facts: Iterable[tuple[str, sympy.Expr, int]]) -> dict:
        """Plain symbols first, then expressions of one unknown, then everything is checked."""
        values: dict[sympy.Symbol, int] = {}
        facts = sorted(facts, key=lambda fact: not fact[1].is_Symbol)
        for key, expr, value in facts:
            unknowns = expr.free_symbols - set(values)
            if len(unknowns) == 1:
                (unknown,) = unknowns
                values[unknown] = self._solve_one(
                    key, expr.xreplace(_integers(values)), unknown, value
                )
        for key, expr, value in facts:
            live = expr.xreplace(_integers(values))
            if not live.free_symbols and live != value:
                names = {s: sympy.Symbol(self.call(s)) for s in expr.free_symbols}
                raise ShapeError(f"`{key}` = {value}, but {expr.xreplace(names)} is {live} there")
        for symbol, value in values.items():
            self._check_range(symbol, value)
        return values

    def _solve_one(self, key: str, expr: sympy.Expr, unknown: sympy.Symbol, value: int) -> int:
        if expr == unknown:
            return int(value)
        bare = sympy.Symbol("x")  # torch's symbols are positive, which would hide a zero
        roots = sympy.solve(expr.xreplace({unknown: bare}) - value, bare)
        whole = [int(r) for r in roots if r.is_Integer and r >= 0]
        if len(whole) != 1:
            raise ShapeError(f"`{key}` = {value}: {self.call(unknown)} has no whole value there")
        return whole[0]

    def _check_range(self, symbol: sympy.Symbol, value: int) -> None:
        bounds = self.ranges.get(str(symbol))
        if bounds is None:
            return
        # A minimum of 2 is what Dim.AUTO writes; `compile --min` may lower it, so goldens may too.
        lower = 0 if bounds.lower <= 2 else int(bounds.lower)
        if value < lower or bounds.upper < value:  # upper may be torch's integer infinity
            raise ShapeError(
                f"{self.describe(symbol)} would be {value}, "
                f"outside [{bounds.lower}, {bounds.upper}]"
            )


def _integers(values: Mapping[sympy.Symbol, int]) -> dict:
    return {symbol: sympy.Integer(value) for symbol, value in values.items()}
