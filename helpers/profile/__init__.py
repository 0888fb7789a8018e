"""Why is a step slow: read a trace of ``torch.profiler``, find its steps, account for every microsecond of them.

Reading (:mod:`helpers.profile.trace`) takes nothing for granted: a trace is a file from elsewhere. Steps
(:mod:`helpers.profile.steps`) come from the profiler's own marks or the optimizer's, and
:mod:`helpers.profile.breakdown` gives each microsecond to exactly one share.
"""
