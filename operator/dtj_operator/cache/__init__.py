"""What the operator knows of the cluster, as in client-go's tools/cache: reflectors fill indexers."""
