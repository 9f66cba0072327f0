"""The operator for DistributedTrainingJob: distributed TensorFlow training on Kubernetes."""

__version__ = "0.1.0"
