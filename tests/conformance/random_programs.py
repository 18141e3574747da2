"""Random programs against torch: drawn, exported, compiled, run at many live shapes, compared.

    python tests/conformance/random_programs.py --count 1000   # seeds 0 to 999
    python tests/conformance/random_programs.py --seed 4711    # one, minimised if it fails
    python tests/conformance/random_programs.py --count 500 --seed 2000 --json found.json

(With PYTHONPATH=python.) A seed is a program. What torch.export refuses is drawn again; an op
without an implementation is counted by name. Anything else that is not as torch has it is a
finding, printed as the smallest program that still shows it; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from random_cases import Case, draw, pruned, without
from random_judge import Judge, Verdict
from random_ops import NAME

UNSERVED = re.compile(r"aten\.[\w.]+")


BUDGET = 80  # programs tried while one is made smaller


def attempt(judge: Judge, seed: int) -> tuple[Case | None, Verdict]:
    """Draws until torch exports it, then judges."""
    verdict: Verdict = {"kind": "again", "text": "nothing was drawn"}
    for number in range(20):
        case = draw(seed, number)
        if case.lines and (verdict := judge(case))["kind"] != "again":
            return case, verdict
    return None, verdict


def minimise(judge: Judge, case: Case, kind: str) -> Case:
    """The smallest program that fails in the same way: one output, fewer lines, plain inputs."""
    left = BUDGET
    while True:
        for smaller in map(pruned, _smaller(case)):
            if not smaller.outputs or smaller == case:
                continue
            if left == 0:
                return case
            left -= 1
            if judge(smaller)["kind"] == kind:
                case = smaller
                break
        else:
            return case


def _smaller(c: Case) -> Iterator[Case]:
    """What to try first comes first."""
    if len(c.outputs) > 1:
        yield from (replace(c, outputs=(name,)) for name in c.outputs)
    for name, text in reversed(c.lines):
        yield from (without(c, name, operand) for operand in dict.fromkeys(NAME.findall(text)))
    yield from (replace(c, points=(p,)) for p in c.points if len(c.points) > 1)
    if c.decompose:
        yield replace(c, decompose=False)
    for name, spec in c.inputs.items():
        if spec.style != "plain":
            yield replace(c, inputs={**c.inputs, name: replace(spec, style="plain")})


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1, help="programs, one a seed")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--json", metavar="FILE", help="write counts and findings there")
    parser.add_argument("--quick", action="store_true", help="do not minimise")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    judge = Judge()
    counts: Counter[str] = Counter()
    unsupported: Counter[str] = Counter()
    findings = []
    start = time.monotonic()
    for done, seed in enumerate(range(args.seed, args.seed + args.count), 1):
        case, verdict = attempt(judge, seed)
        counts[verdict["kind"]] += 1
        if verdict["kind"] == "unsupported":
            unsupported.update(UNSERVED.findall(verdict["text"]) or [verdict["text"]])
        elif case and verdict["kind"] != "ok":
            if not args.quick:
                case = minimise(judge, case, verdict["kind"])
                again = judge(case)
                verdict = again if again["kind"] != "ok" else {**verdict, "again": "ok"}
            findings.append({"seed": seed, **verdict, "program": str(case)})
            print(f"\n--seed {seed}: {verdict['kind']}: {verdict['text']}\n{case}", flush=True)
        if sys.stderr.isatty() or done % 100 == 0:
            rate = done / (time.monotonic() - start)
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{seed}: {dict(counts)}, {rate:.1f}/s", file=sys.stderr, flush=True, end=end)
    print(f"{args.count} programs: {dict(counts)}")
    for op, count in unsupported.most_common():
        print(f"  {count} x {op}")
    if args.json:
        report = {"counts": counts, "unsupported": unsupported, "findings": findings}
        Path(args.json).write_text(json.dumps(report, indent=1))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
