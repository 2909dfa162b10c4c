"""One course a profile: the volatile texts that DeepSeek Harness was seen to put into a prompt occur in them.

Not `list_agents` after two children of one step: the harness starts them at once, and lists them in the order in which
they happened to be made.
"""

from __future__ import annotations

from runners.gateway.asking import ContextOverflow
from runners.gateway.conversation import Call, Reply
from tests.harness.stage import Course, does


def _acts(*calls: Call, text: str = "", thinking: str = "") -> Reply:
    return Reply(text=text, thinking=thinking, calls=calls)


MINIMAL_PROMPTS = ("Look around.", "Go on.", "And now?")
MINIMAL = Course(
    replies={
        0: (
            _acts(does("bash", command="pwd; ls -a; echo $HOME $DSH_SESSION_ID"), thinking="Where am I?"),
            _acts(
                does(
                    "bash", command="cat /workspace/missing; printf 'one\\ntwo\\n' > /workspace/a.txt; ls /workspace/*"
                )
            ),
            _acts(does("working_directory"), does("nosuch", path="/workspace/a.txt"), text="In /workspace."),
            _acts(does("bash", command='pwd | sed \'s|/|\\\\/|g\'; printf \'{"at": "x\\\\n%s"}\\n\' "$PWD"')),
            _acts(text="Done in /workspace."),
            Reply(),
            _acts(does("bash", command="cat < /workspace/a.txt; echo file://$PWD/a.txt")),
            _acts(text="End."),
        ),
    },
    summary="- /workspace/a.txt holds one and two",
    failures={(0, 4): ContextOverflow(8000, 6144)},
)

SDK_PROMPTS = ("Look around, then delegate.",)
SDK = Course(
    replies={
        0: (
            _acts(does("bash", description="Look", command="pwd; ls -a; echo $HOME $DSH_HOME $DSH_SESSION_ID")),
            _acts(does("write", file_path="/workspace/notes/a.txt", content="cats: 2\nat /workspace\n")),
            _acts(
                does("read", file_path="/workspace/notes/a.txt"),
                does("glob", pattern="**/*", path="/workspace"),
                does("grep", pattern="cats", path="/workspace"),
                does("read", file_path="missing.txt"),
            ),
            _acts(does("edit", file_path="notes/a.txt", old_string="cats: 2", new_string="cats: 3")),
            _acts(
                does("subagent", description="cats", prompt="Count the cats in /workspace."),
                does("subagent", description="dogs", prompt="Count the dogs in /workspace."),
            ),
            _acts(does("bash", description="Wait", command="sleep 60", run_in_background=True)),
            _acts(does("job_list"), does("send_message", agent_id="agent-2", message="Birds too, in /workspace.")),
            _acts(does("job_kill", job_id="bash-root-1")),
            _acts(text="Waiting."),
            _acts(text="The cats are counted."),
            _acts(text="Noted."),
            _acts(text="All are done."),
        ),
        1: (
            _acts(does("bash", description="Look", command="pwd")),
            _acts(does("send_message", agent_id="session-root", message="3 cats in /workspace/notes/a.txt")),
            _acts(text="Cats are counted."),
        ),
        2: (
            _acts(does("bash", description="Look", command="ls /workspace/notes")),
            _acts(text="No dogs in /workspace."),
        ),
    },
    after={(1, 0): (0, 8), (1, 2): (0, 9), (2, 0): (0, 10)},
)
