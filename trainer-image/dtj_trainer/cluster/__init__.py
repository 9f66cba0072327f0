"""Who is in the cluster, and waiting for them."""
