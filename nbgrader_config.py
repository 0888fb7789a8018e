"""nbgrader's options for the labs.

To grade a lab, make a course folder with the lab's source as an assignment and this file beside it::

    mkdir -p ../grading/source/01
    cp labs/solutions/01_*.ipynb ../grading/source/01/
    cp nbgrader_config.py ../grading/
    cd ../grading && nbgrader generate_assignment 01

Students' notebooks then go to ``submitted/<student>/01/``; ``nbgrader autograde 01`` and ``nbgrader export`` do the
rest. Autograding runs the students' code: do it in a container or on a machine that has nothing to lose.
"""

from helpers.labs.build import configure

configure(get_config())  # type: ignore[name-defined]  # noqa: F821  # nbgrader defines it while it reads this file
