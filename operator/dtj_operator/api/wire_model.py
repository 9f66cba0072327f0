"""The base class of all models of the API (camelCase in JSON, snake_case in Python, frozen) and its time types."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """A value of the API. Unknown fields are ignored, and fields cannot be assigned."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_enum_values=False,
    )


def parse_time(text: str | None) -> datetime | None:
    """Parse an RFC 3339 time of the API. Returns None for an empty or invalid text, and for a time that UTC has not."""
    if not text:
        return None
    try:
        return _aware(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def whole_second(moment: datetime) -> datetime:
    """Round down to a whole second, as metav1.Time does."""
    return moment.replace(microsecond=0)


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Second = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"), return_type=str),
]
"""A time in whole seconds, as Kubernetes' own times: people compare both."""
Instant = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), return_type=str),
]
"""A time in microseconds, for what the operator computes with."""
