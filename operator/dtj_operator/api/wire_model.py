"""The base of all wire models: camelCase outside, snake_case inside, frozen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """A value as it stands in the API: unknown fields are ignored, nothing can be changed."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_enum_values=False,
    )


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 instant of the API; None for nothing and for what is no instant."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def whole_second(moment: datetime) -> datetime:
    """The second that `moment` falls in, as metav1.Time keeps it."""
    return moment.replace(microsecond=0)


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Second = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"), return_type=str),
]
Instant = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), return_type=str),
]
