"""The base of all wire models: camelCase outside, snake_case inside, frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
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
