"""``kakite debate``: coding CLIs argue about a question, and a person decides how to go on."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kakite.cli.debate_runner import runner
from kakite.cli.debate_serve import serve

_DEFAULT = "about"


class _TopicGroup(TyperGroup):
    """A group in which what is no command is the topic of the default one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_TopicGroup,
    help='Let coding CLIs argue about a question: `kakite debate "TOPIC"`. You decide how it goes on.',
    epilog='`kakite debate "TOPIC" …` is short for `kakite debate about "TOPIC" …`.',
    no_args_is_help=True,
)


@app.command(_DEFAULT)
def about(
    topic: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")] = "",
) -> None:
    """Hold a debate in the terminal."""
    raise NotImplementedError(topic)


# The server and the runner.
app.command("serve")(serve)
app.command("runner")(runner)
