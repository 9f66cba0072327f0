"""The API server over HTTP: configuration, requests, typed errors, watches.

Knows nothing of training jobs but the path of the resource.
"""
