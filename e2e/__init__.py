"""End-to-end scenarios, and the clusters that they run on."""
