"""Which model reads documents, and how much of it one document may take."""

from dataclasses import dataclass

from rowmill_systems.parts.models import ModelEndpoint


@dataclass(frozen=True, slots=True)
class ModelSettings(ModelEndpoint):
    """A model, and what one document may take of it."""

    wait: float = 60.0
    """Seconds to wait for room in the limit between the calls of one document. Its first call does not wait: then the
    file goes back, and nothing is lost."""
    max_input_tokens: int = 12_000
    """Of one call. Longer documents need several."""
    max_output_tokens: int = 4_000
    max_calls: int = 20
    """For one document. What would need more is left unread, and the log says how much."""

    def problems(self) -> list[str]:
        return [
            *ModelEndpoint.problems(self),
            *([] if self.wait >= 0 else ["wait is in seconds. Give 0 or more"]),
            *([] if min(self.max_input_tokens, self.max_output_tokens, self.max_calls) > 0 else [
                "max_input_tokens, max_output_tokens and max_calls are counts. Give numbers above 0"
            ]),
        ]  # fmt: skip
