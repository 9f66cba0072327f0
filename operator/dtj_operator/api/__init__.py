"""The resource: its models, names, defaults and CustomResourceDefinition. Pure."""
