"""The resource DistributedTrainingJob: its models, enums, defaults and CustomResourceDefinition. Pure."""
