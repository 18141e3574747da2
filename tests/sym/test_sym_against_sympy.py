"""sym against sympy, torch and Python on 20,000 random expressions (G1, G9, X2, X3).

Each expression is read in all three spellings and evaluated at random points and corners of the
symbol ranges, through Table::Evaluate and through a ShapeProgram. Python's own eval judges guard
and infix; torch's sympy functions judge srepr. Bounds, IsTrue, Divides and Quotient must never be
contradicted, and the printed text must read back to the same pointer.
"""

import math
import os
import pathlib
import random
import subprocess
import types

import expression_gen as gen
import pytest
import sympy
import torch.utils._sympy.functions as F

COUNT = int(os.environ.get("LIVESHAPE_SYM_CASES", "20000"))
SEED = int(os.environ.get("LIVESHAPE_SYM_SEED", "1"))
DIVISIONS = 4000
SYMBOLIC_EVERY = 2  # building and simplifying with sympy costs milliseconds, so only these
POINTS = 6
# What torch's functions raise for x//0, negative shifts, powers that they make int_oo of, and some
# deep simplifications.
REFUSALS = (ArithmeticError, ValueError, TypeError, AssertionError, AttributeError, RecursionError)
INT64 = range(-(2**63), 2**63)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def oracle():
    build = pathlib.Path(os.environ.get("LIVESHAPE_BUILD", "build/release"))
    path = (ROOT / build / "sym_oracle").resolve()
    assert path.exists(), f"{path} is missing: build the target liveshape_tests"
    return path


def ask(lines):
    done = subprocess.run(
        [oracle()], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def points_of(rng, symbols):
    def value(lo, hi):
        kind = rng.random()
        if kind < 0.5:
            return rng.randint(lo, hi)
        return lo if kind < 0.65 else hi if kind < 0.8 else min(hi, lo + rng.randrange(20))

    corners = [[lo for _, lo, _ in symbols], [hi for _, _, hi in symbols]]
    return corners + [[value(lo, hi) for _, lo, hi in symbols] for _ in range(POINTS - 2)]


def request_points(points):
    return ";".join(",".join(map(str, p)) for p in points)


def table_request(symbols):
    return "T\t" + "\t".join(f"{name}={lo}:{hi}" for name, lo, hi in symbols)


PYTHON = {
    "math": math, "min": min, "max": max, "round": round,
    "torch": types.SimpleNamespace(sym_max=max, sym_min=min, sym_float=float, _sym_sqrt=math.sqrt),
}  # fmt: skip


def python_values(code, points):
    """What Python says of a guard; None where it raises."""
    values = []
    for point in points:
        x = types.SimpleNamespace(size=lambda point=point: point)
        try:
            values.append(int(eval(code, {**PYTHON, "L": {"x": x}})))
        except (ArithmeticError, ValueError):
            values.append(None)
    return values


def as_int(value):
    truth = isinstance(value, (bool, sympy.logic.boolalg.BooleanAtom))
    return int(bool(value)) if truth else int(value)


def sympy_value(srepr, point, symbols):
    """srepr computed by torch's functions on sympy's numbers; None where they raise."""
    at = {name: sympy.Integer(v) for (name, _, _), v in zip(symbols, point, strict=True)}
    try:
        return as_int(eval(srepr, {**gen.NAMESPACE, "Symbol": lambda name, **_: at[name]}))
    except REFUSALS:
        return None


def at_point(point, symbols):
    return {
        gen.sympy_symbol(name, lo): sympy.Integer(v)
        for (name, lo, _), v in zip(symbols, point, strict=True)
    }


def symbolic_value(expression, point, symbols):
    try:
        value = expression.xreplace(at_point(point, symbols))
        if value.free_symbols or not (value.is_number or value in (True, False)):
            return None
        return as_int(value)
    except REFUSALS:
        return None


class Case:
    def __init__(self, rng, index, symbols):
        g = gen.Generator(rng, symbols)
        depth = rng.choice([1, 2, 2, 3, 3, 4])
        self.symbols = symbols
        self.tree = g.truth(depth) if rng.random() < 0.2 else g.integer(depth)
        self.points = points_of(rng, symbols)
        self.infix = gen.spell(self.tree, symbols, guard=False)
        self.guard = gen.spell(self.tree, symbols, guard=True)
        self.symbolic = None
        self.srepr = gen.srepr_of(self.tree, symbols)
        if index % SYMBOLIC_EVERY == 0:
            try:
                self.symbolic = gen.to_sympy(self.tree, symbols)
                self.srepr = sympy.srepr(self.symbolic)
            except REFUSALS:
                self.symbolic = None  # torch refuses it, as x//0

    def request(self):
        return "\t".join(["E", self.srepr, self.infix, self.guard, request_points(self.points)])

    def fault_is_excused(self, point):
        return gen.magnitude(self.tree, point) > 2**45


def parse_report(report):
    values, lo, hi, truth, same, text = report.split("|", 5)
    return values.split(","), int(lo), int(hi), truth, same == "1", text


def check_report(where, report, expected, excused):
    """`expected`: values by point index. Returns how many were compared."""
    assert not report.startswith("error"), f"{where}: {report}"
    values, lo, hi, truth, same, text = parse_report(report)
    assert same, f"{where}: `{text}` does not read back to the same pointer"
    compared = 0
    for i, answer in enumerate(values):
        assert "/" not in answer, f"{where}: `{text}` at point {i}: table/program = {answer}"
        want = expected.get(i)
        if answer == "!":
            fine = want is None or want not in INT64 or excused(i)
            assert fine, f"{where}: `{text}` fails at point {i}, not {want}"
            continue
        got = int(answer)
        if want is not None:
            assert got == want, f"{where}: `{text}` at point {i} is {got}, not {want}"
            compared += 1
        # Where the judge has none, a lost error (0 * (x//0)) may leave a value: bounded too.
        assert lo <= got <= hi, f"{where}: `{text}` at point {i} is {got}, outside [{lo}, {hi}]"
        contradicted = truth == ("n" if got else "y")
        assert not contradicted, f"{where}: IsTrue of `{text}` is {truth}, it is {got} at point {i}"
    return compared


def test_20000_expressions_in_three_spellings():
    rng = random.Random(SEED)
    requests, cases = [], []
    for i in range(COUNT):
        if i % 200 == 0:
            symbols = gen.SYMBOL_SETS[i // 200 % len(gen.SYMBOL_SETS)]
            requests.append(table_request(symbols))
        cases.append(Case(rng, i, symbols))
        requests.append(cases[-1].request())
    answers = ask(requests)
    assert len(answers) == len(cases) == COUNT
    compared = judged = 0
    for case, answer in zip(cases, answers, strict=True):
        srepr, infix, guard = answer.split("\t")
        where = f"{case.infix} at {case.points} with {case.symbols}"

        def excused(i, case=case):
            return case.fault_is_excused(case.points[i])

        code = compile(case.guard, "guard", "eval")
        by_python = dict(enumerate(python_values(code, case.points)))
        compared += check_report(where, infix, by_python, excused)
        if guard != "same":
            check_report(where, guard, by_python, excused)
        i = rng.randrange(POINTS)
        if case.symbolic is None:
            # Python too, at all points: sympy is the slower judge.
            expected = by_python
            value = sympy_value(case.srepr, case.points[i], case.symbols)
        else:
            expected = {}
            value = symbolic_value(case.symbolic, case.points[i], case.symbols)
        if value is not None:
            judged += 1
            expected = expected | {i: value}
        check_report(case.srepr, srepr, expected, excused)
    print(f"{COUNT} expressions: {compared} values agree with Python's, {judged} with sympy's")
    assert compared > 4 * COUNT  # else errors hide the comparison
    assert judged > 0.8 * COUNT


def test_divides_and_quotient_are_never_contradicted():
    rng = random.Random(SEED + 1)
    requests, cases = [], []
    for i in range(DIVISIONS):
        if i % 200 == 0:
            symbols = gen.SYMBOL_SETS[i // 200 % len(gen.SYMBOL_SETS)]
            requests.append(table_request(symbols))
        g = gen.Generator(rng, symbols)
        d = g.divisor(1, constant=False)
        e = g.integer(2)
        if rng.random() < 0.6:
            e = ("mul", e, d)  # divisible
        if rng.random() < 0.4:
            e = ("add", e, ("int", rng.randrange(4)))
        points = points_of(rng, symbols)
        e, d = (gen.spell(t, symbols, guard=False) for t in (e, d))
        cases.append((e, d, points, symbols))
        requests.append("\t".join(["D", e, d, request_points(points)]))
    answers = ask(requests)
    assert len(answers) == DIVISIONS
    seen = {"y": 0, "n": 0, "?": 0}
    for (e, d, points, symbols), answer in zip(cases, answers, strict=True):
        assert answer != "error", (e, d)
        verdict, dividends, divisors, quotients = answer.split("\t")
        seen[verdict] += 1
        quotient = quotients.split(",") if quotients else ["!"] * len(points)
        for i, (a, b) in enumerate(zip(dividends.split(","), divisors.split(","), strict=True)):
            if "!" in (a, b) or b == "0":
                continue
            divides = int(a) % int(b) == 0
            where = f"({e}) / ({d}) at {points[i]} with {symbols}: {a} / {b}"
            assert not (verdict == "y" and not divides), where
            assert not (verdict == "n" and divides), where
            if quotient[i] != "!":
                assert int(quotient[i]) == int(a) // int(b), where
    print(seen)
    assert seen["y"] > DIVISIONS / 10 and seen["n"] > DIVISIONS / 50


def what_sympy_and_torch_write():
    s, u = sympy.Symbol("s0", positive=True, integer=True), sympy.Symbol("u1", integer=True)
    yield from (F.Max(s, u, 3), F.Min(s, 2), F.FloorDiv(s, 2), F.CleanDiv(s, s), F.Mod(s, 4))
    yield from (F.PythonMod(u, 4), F.ModularIndexing(s, 2, 4), F.IntTrueDiv(s, 2), F.LShift(s, 3))
    yield from (F.RShift(u, 1), F.PowByNatural(sympy.Integer(2), u + 20), F.Identity(s + 1))
    yield from (F.CeilDiv(s, 4), sympy.floor(s / 2), sympy.ceiling(u / 3), sympy.Rational(1, 2) * s)
    yield from (s / (u + 30), sympy.sqrt(s), sympy.ITE(s > 3, u > 2, u < 1), sympy.Abs(u), -s)
    yield from (F.TruncToFloat(F.ToFloat(s) / 2), sympy.Piecewise((s, sympy.Eq(u, 1)), (u, True)))
    yield from (F.BitwiseFn_bitwise_xor(s, u), F.RoundToInt(F.ToFloat(s) / 3), sympy.S.true)
    yield from (F.ToFloat(s) + s + 1, F.BitwiseFn_bitwise_or(s, u), F.FloorToInt(F.ToFloat(u) / 3))


@pytest.mark.parametrize("expression", list(what_sympy_and_torch_write()), ids=str)
def test_what_sympy_and_torch_write_is_read(expression):
    symbols = gen.SYMBOL_SETS[0]
    relation = isinstance(expression, sympy.logic.boolalg.Boolean)
    text = sympy.srepr(expression)
    if not relation:  # seen to three decimals
        text = f"TruncToInt(Mul(Float('1000.0', precision=53), {text}))"
    points = points_of(random.Random(3), symbols)
    request = "\t".join(["E", text, "0", "0", request_points(points)])
    (answer,) = ask([table_request(symbols), request])
    values, *_ = parse_report(answer.split("\t")[0])
    for point, value in zip(points, values, strict=True):
        want = expression.xreplace(at_point(point, symbols))
        want = int(bool(want)) if relation else math.trunc(1000.0 * float(want))
        assert int(value) == want, (text, point)


def test_what_is_not_read_says_so():
    points = request_points([[1, 2, 0, 0]])
    for text in ("Xor(true, false)", "OpaqueUnaryFn_cos(Integer(1))", "oo", "Symbol('zuf0')", "1"):
        (answer,) = ask([table_request(gen.SYMBOL_SETS[0]), f"E\t{text}\t0\t0\t{points}"])
        assert answer.startswith("error: column 1: "), answer
