"""One measurement in a process of its own: `worker.py CONTENDER` reads a Job from stdin and prints an Outcome.

Other work by the same means: `tokens` cuts prompts, `grammar` measures what a grammar costs.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    # What native libraries print must not mix with the result.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, given = sys.argv[1], sys.stdin.read()
    if name == "tokens":
        from prompts import cut

        result = json.dumps(cut(**json.loads(given)))
    elif name == "grammar":
        from grammar_cost import measure_grammar

        result = measure_grammar(**json.loads(given)).model_dump_json()
    else:
        from contenders import CONTENDERS
        from workload import Job

        result = CONTENDERS[name](Job.model_validate_json(given)).model_dump_json()
    out.write(result)
    out.flush()
    # Without the interpreter's own end: a native server's threads may still be running.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
