"""The API server, over HTTP: connection, requests, typed errors, watches.

Knows nothing of training jobs beyond the path of the resource.
"""
