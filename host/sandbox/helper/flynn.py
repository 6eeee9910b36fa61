"""The tools of the agent that wrote this program: flynn.call("web.fetch", url="https://example.com") returns a tool's text.

A call that is refused, or that fails, raises flynn.Error with the reason. Files of a result lie in the workspace; the text
names them.
"""

import json as _json
import subprocess as _subprocess

__all__ = ["Error", "call"]


class Error(Exception):
    """A call that was refused or that failed."""


def call(tool, /, **args):
    """Call a tool by its name, with its arguments by theirs."""
    done = _subprocess.run(
        ["/.flynn/bin/flynn-call", tool], input=_json.dumps(args, allow_nan=False).encode(), capture_output=True
    )
    if done.returncode != 0:
        raise Error(done.stderr.decode("utf-8", "replace").strip() or "the host did not answer")
    answer = _json.loads(done.stdout)
    if answer.get("error"):
        raise Error(answer["text"])
    return answer["text"]
