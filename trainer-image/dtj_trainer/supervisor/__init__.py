"""PID 1 of a trainer pod: forks, watches and restarts the training process.

Standard library only, and no TensorFlow: it has to answer from the first second. prometheus-client comes with the first
scrape.
"""
