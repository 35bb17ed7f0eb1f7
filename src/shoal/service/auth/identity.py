"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["none", "token", "jwt"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A subject, and how it is known that it is the one who asks."""

    subject: str
    method: Method

    @property
    def may_do_all(self) -> bool:
        """Whether nobody looks at grants, as in a service without authentication."""
        return self.method == "none"


ANYONE = Identity("anyone", "none")
"""The caller of a service without authentication."""
