"""`tandem completion`: the script by which a shell completes our commands and options."""

import os
from typing import Annotated, Literal

import typer

_VARIABLE = "_TANDEM_COMPLETE"  # a shell asks by this variable


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"],
        typer.Argument(metavar="SHELL", help="bash, zsh or fish: whose script is printed."),
    ] = "bash",
) -> None:
    """Print the script that lets a shell complete commands and options.

    bash: `tandem completion bash > ~/.local/share/bash-completion/completions/tandem`; zsh: into a file `_tandem` of
    $fpath; fish: into ~/.config/fish/completions/tandem.fish.
    """
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="tandem", complete_var=_VARIABLE, shell=shell))


def answer_shells() -> None:
    """Where a shell asks for words, have typer's answers to the three of them ready."""
    if _VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
