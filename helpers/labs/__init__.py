"""The labs: tasks that look at evidence, and the machinery around them.

In a lab's notebook::

    from helpers.labs import Lab

    lab = Lab("01")
    lab.check("train_step", train_step)   # what was seen, what was expected
    lab.hint("train_step")                # one rung further up the ladder each time
    lab.solution("train_step")            # one way to do it
    lab.progress()

How to write lab NN:

1. ``helpers/labs/labNN.py`` declares ``LAB``, a :class:`~helpers.labs.tasks.Plan`, and imports no framework. Each
   :class:`~helpers.labs.tasks.Task` has a name (that of the function or class the learner writes), title, minutes,
   points, hints, and its check as ``"helpers.labs.labNN_checks:function"``.
2. ``helpers/labs/labNN_checks.py`` holds the checks, one function a task, from what the learner hands in to a
   :class:`~helpers.labs.tasks.Verdict`: ``correct(message)`` or ``incorrect(message, saw=…, expected=…)``. Look at what
   the answer *does*: count, compare with a reference, record the order of calls. Do not look at its text. A blank
   answer and an answer that raises never reach you or are handled for you (:mod:`helpers.labs.judge`). Texts are plain,
   with code between backticks; describe the learner's values with :func:`~helpers.labs.judge.shown`; wrap numbers that
   differ between machines in :func:`helpers.claims.measured`.
3. ``labs/solutions/NN_name.ipynb`` is the one source of the notebook. For each task three cells follow each other:

   - markdown: ``## Task 1: title (10 minutes, 4 points)``, what to write and what the check looks at;
   - a solution cell, a function or class with a docstring and its body between ``### BEGIN SOLUTION`` and
     ``### END SOLUTION``. Metadata: ``{"nbgrader": {"grade": false, "grade_id": "train_step", "locked": false,
     "schema_version": 3, "solution": true, "task": false}, "tags": ["hide-input"]}`` (the tag folds it in the book);
   - a check cell of two lines, ``from helpers.labs import Lab`` and ``Lab("NN").check("train_step", train_step)``, so
     that a learner who has rebound ``lab`` is checked all the same. Metadata: ``{"nbgrader": {"grade": true,
     "grade_id": "check_train_step", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task":
     false}}``.

   The first code cell makes ``lab`` and imports what the tasks need; it is locked (``grade`` and ``solution`` false,
   ``grade_id`` ``setup``). The last cell is ``lab.progress()``. No cell calls ``hint`` or ``solution``.
4. ``course notebooks run labs/solutions/NN_name.ipynb``, then ``course labs build`` writes ``labs/NN_name.ipynb`` with
   the outputs of the untouched run.
5. ``tests/labs/test_labNN.py`` has a table of answers: the right one, none, and at least three plausible wrong ones
   for each task, each with a part of its own message. ``tests/labs/test_sources.py`` checks the rest for every lab.
"""

from helpers.labs.lab import Lab

__all__ = ["Lab"]
