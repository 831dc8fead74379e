"""The command that lets a shell complete the others."""

from typing import Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.commands import app
from vector_memory.cli.terminal import say


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell to complete in.")], /
) -> None:
    """Print what lets a shell complete commands and flags.

    bash: put `eval "$(vector-memory completion bash)"` into ~/.bashrc.

    zsh: save it as _vector-memory in a folder of $fpath.

    fish: save it as ~/.config/fish/completions/vector-memory.fish.
    """
    say(app.generate_completion(prog_name="vector-memory", shell=shell))
