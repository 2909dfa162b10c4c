"""What stands above each table: what is counted, of what, and what n is. Backquotes mark code."""

from __future__ import annotations

READING = """
Figures are never pooled over models, decode modes, samplers or scenarios. A rate stands with its n and, in brackets,
the share and its 95% interval. "unique" is how many different trajectories a row rests on.
"""

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

TOKENS = """
Completion tokens that the model decoded for this run, and those taken from the tape because the prompt had been met
before.
"""

CURVES = """
The first figure shows each pair that was tripped or nudged; the second the cumulative incidence of the first trip by
any guard of the arm, with leaving the loop by itself and the end of the task as competing events and the horizon as
censoring (Aalen and Johansen 1978).
"""

ACTOR = """
A scripted model, not a real one. It shows that the path works and when guards trip by the rules; it says nothing
about models.
"""

FAILED = """
These episodes are no outcome: they are in no figure, and were neither counted as misses nor as failures of the model.
"""

CHECKS = """
What did not hold in this run, and what it touches:
"""

NO_CHECKS = """
Every guarded episode has its twin, equal first prompts and an equal history up to the first intervention.
"""

METHOD = (
    """
Labels: a judge that knows the state of the task and no guard calls each asked call novel, needed, requested or
sterile, denied calls too, after the episode.
""",
    """
Loops: 3 or more sterile calls in a row of one agent that the model chose; for refills, 3 or more compaction attempts
with no unit of the task completed between them. Whether an episode was provoked, and where its loop began, is read
from its `off` twin: the same scenario, size, model, decoding, seed and horizon, whose history is equal up to the
first intervention.
""",
    """
Delay: asked calls (attempts) from the twin's onset to the first denial, refusal or nudge, from the last primed call
where a history was primed. Early: before the onset. Missed: never, up to the horizon.
""",
    """
False positive: a denied novel or needed call, or a refused compaction though a unit of the task was completed since
the attempt before. Denied requested calls and true trips in quiet scenarios (sterile calls at or after the twin's
onset) are counted apart.
""",
    """
Saved: what `off` spent minus what the guarded episode spent, both up to the same horizon; model seconds are those
stored with the tape.
""",
    """
Intervals: Wilson's 95% score interval for episodes and pairs; for calls the same at Kish's effective sample size with
calls of an episode taken as fully dependent; order statistics for medians, none below 6. At a single true rate near 0
or 1 Wilson's interval can cover less than 95%; over all rates its mean coverage is 95% or more. At temperature 0
equal trajectories count once.
""",
    """
Model tokens are read plus written tokens of the agent's model responses. Tokens of summaries are in them only where
the run recorded them; their model seconds always are.
""",
)
