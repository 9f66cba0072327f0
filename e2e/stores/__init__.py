"""Stores of data for tests: HDFS from its own jars, and an object store that speaks Google's protocol."""
