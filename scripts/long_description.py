# SPDX-License-Identifier: Apache-2.0
"""hatchling's metadata hook: README.md as the long description, its links made absolute."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A link or picture of Markdown whose target is a path in the repository.
RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)]+)\)")


def absolute(text: str, documentation: str, folder: str = "") -> str:
    """The text of a file in `folder`, its relative links below the repository's address."""
    repository = documentation.rsplit("/tree/", 1)[0]

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        kind = "raw" if picture else "blob"
        return f"{picture}[{label}]({repository}/{kind}/main/{folder}{target})"

    return RELATIVE.sub(link, text)


class LongDescription(MetadataHookInterface):
    def update(self, metadata: dict[str, object]) -> None:
        """Sets `readme`."""
        urls = metadata["urls"]
        assert isinstance(urls, dict)
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, urls["Documentation"]),
        }
