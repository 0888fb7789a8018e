"""The code behind the course *Loop to Cluster*: train, profile, diagnose and launch.

The package is built in floors; a module imports only from its own floor or below::

    5  cli  check  probe  notebooks/  labs/  widgets/
    3  profile/
    2  train  config  optim  explain  nonfinite  history  graph_step  graph/  anatomy  reads  stepclock  lightning  tf/
    1  data  downloads  models
    0  seeding  machine  versions  claims  source  timing  plotting  quiet  errors

Importing ``helpers`` itself imports no framework: take what you need, for example
``from helpers import train``.
"""
