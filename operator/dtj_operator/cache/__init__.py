"""What is known of the cluster, as client-go keeps it: reflectors fill indexers."""
