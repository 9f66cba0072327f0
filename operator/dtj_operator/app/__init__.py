"""The operator as a program: settings, kopf, health, metrics, command line.

The only place that imports kopf.
"""
