"""What stands above each table: what is counted, of what, and what n is. Backquotes mark code."""

from __future__ import annotations

BRIEF = """
One row a scenario and arm. First trip: by guard and plane, the median number of the call (compaction-breaker: of the
compaction attempt) and in how many provoked pairs it acted. False positives: novel or needed calls that were denied.
Calls saved: executed calls, `off` minus guarded, the median of the provoked pairs, up to the horizon.
"""

PROVOKED = """
Episodes of the `off` arm, n: all of them; of "left by itself": those with a loop, and their first one. A loop of
calls is 3 or more sterile calls in a row; a loop of refills is 3 or more compaction attempts in a row with no unit of
the task completed between them.
"""

TIMING_CALLS = """
Guards against loops of calls. n: pairs whose `off` twin has such a loop. Index: which call of the agent it was.
Delay: asked calls after the onset in the twin, 0 being the onset itself. Index, delay and the same delay in turns,
tokens and seconds are medians of the pairs where the guard acted.
"""

TIMING_REFILL = """
The guard against loops of refills. n: pairs whose `off` twin has such a loop. Index and delay count compaction
attempts; summaries before: those that the agent had asked for before the first refusal. All but the counts are
medians of the pairs where the guard acted.
"""

FALSE_POSITIVES = """
n: asked calls of the class; of compactions: attempts with a unit of the task completed since the one before; of quiet
episodes: episodes of a quiet scenario, those with a false positive counted. Calls of one episode are not independent:
their interval counts an episode as one observation.
"""

BY_GUARD = """
Guards that denied, refused or nudged what was novel or needed. n as above.
"""

HARM = """
Harmed: of the pairs whose `off` twin solved the task, those that failed under guards. Rescued: of the pairs whose
twin failed, those that solved it. McNemar's exact test, two-sided.
"""

SAVED = """
`off` minus guarded, up to the same horizon: the median of the pairs, from 6 pairs on with its interval; then the sum,
and what share it is of all that `off` spent from the onset on. Saved: pairs whose twin has a loop. Lost: the others.
Below zero: the guarded agent did more.
"""

AFTER = """
n of tripped: episodes of the arm; of the marks: the tripped ones. An episode can have several marks or none.
Completed: the task was solved. Changed: a novel or needed call among the next 3. Stopped: ended its turn unsolved.
Zombie: every later call denied, up to the horizon. Evaded: later sterile calls ran. Overflowed: the context no longer
fitted.
"""
