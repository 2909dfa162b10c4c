"""Whether a change to a decision core is noticed: python -m tests.guards.mutation [--sample N] [--seed S] [--verbose]

Each comparison, operator, constant, condition, update and return of the Python policies and of the plugins' cores is
changed in turn, and judged by rows of traces, configurations and values. Exit status: 0 every survivor is known to be
equivalent, 1 one is not, or a known one is none any more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.guards.mutation.check import PYTHON, SCRIPTS, all_mutants, judge, known, missing, sample, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guards.mutation")
    parser.add_argument("--sample", type=int, help="mutants to judge (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (0)")
    parser.add_argument("--verbose", action="store_true", help="name every mutant and the row that killed it")
    options = parser.parse_args()
    mutants = all_mutants() if options.sample is None else sample(options.sample, options.seed)
    found = judge(mutants)
    if options.verbose:
        for each in found:
            print(f"{each.mutant}   {'SURVIVES' if each.row is None else each.row}")
    killed = Counter(each.mutant.file for each in found if each.row is not None)
    survived = Counter(each.mutant.file for each in found if each.row is None)
    for file in (*PYTHON, *SCRIPTS):
        print(f"{file}: {killed[file]} killed, {survived[file]} survived")
    reasons = known()
    for each in found:
        if each.row is None:
            print(f"survives: {each.mutant}   because: {reasons.get(each.mutant.key, 'NOT KNOWN')}")
    problems = wrong(found) + [f"no mutant any more: {key}" for key in missing()]
    print(f"all: {killed.total()} killed, {survived.total()} survived, {len(problems)} problems")
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
