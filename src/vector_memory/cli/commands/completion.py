"""The command that prints shell completion scripts."""

from typing import Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.commands import app
from vector_memory.cli.terminal import say


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Shell to complete in.")], /) -> None:
    """Print a completion script for a shell.

    bash: add `eval "$(vector-memory completion bash)"` to ~/.bashrc.

    zsh: save it as _vector-memory in a folder of $fpath.

    fish: save it as ~/.config/fish/completions/vector-memory.fish.
    """
    say(app.generate_completion(prog_name="vector-memory", shell=shell))
