"""`make demo`: a training job on a real two-node cluster, from nothing, with a worker killed on the way."""
