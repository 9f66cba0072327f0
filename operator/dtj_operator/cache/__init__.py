"""The cache of the cluster's objects, as in client-go's tools/cache: reflectors fill indexers."""
