"""``agenttrace rules``: what recorded events start."""

from __future__ import annotations

from typing import Annotated

import typer

from agenttrace.cli import opening

app = typer.Typer(no_args_is_help=True)

EPILOG = """
  agenttrace rules run       run the rules; agenttrace up does it by itself
"""


@app.command("run")
def run(
    until_input_ends: Annotated[
        bool, typer.Option("--until-input-ends", hidden=True, help="Stop when standard input ends.")
    ] = False,
) -> None:
    """Run the rules until Ctrl-C. agenttrace up and agenttrace record do it by themselves."""
    from agenttrace.cli import rules_run

    rules_run.run(opening.settings(), until_input_ends=until_input_ends)
