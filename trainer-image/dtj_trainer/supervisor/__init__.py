"""PID 1 of a trainer pod: forks, watches and restarts the process that trains.

Standard library only, and no TensorFlow: it has to answer from the first second.
"""
