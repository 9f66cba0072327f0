"""Plain-dict builders of everything the operator creates. Pure."""
