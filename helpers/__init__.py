"""The code behind the course *Loop to Cluster*: train, profile, diagnose and launch.

The package is built in floors; a module imports only from its own floor or below::

    5  cli  check  notebooks  labs/  widgets/
    2  train  nonfinite  graph  tf/
    1  data  models
    0  seeding  machine  claims  source  timing  plotting

Importing ``helpers`` itself imports no framework: take what you need, for example
``from helpers import train``.
"""
