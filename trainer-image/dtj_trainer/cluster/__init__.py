"""The environment of this pod, its resources and its peers; standard library only."""
