# SPDX-License-Identifier: Apache-2.0
"""`vmcu --completion`: a shell completes commands, options and files by the Tab key."""

from __future__ import annotations

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """Code that a shell evaluates; bash, in ~/.bashrc: eval "$(vmcu --completion bash)"."""
    from argcomplete.shell_integration import shellcode

    code: str = shellcode(["vmcu"], shell=shell)
    return code
