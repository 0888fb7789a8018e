"""The one base class of the errors that this package raises on purpose."""


class CourseError(Exception):
    """Something went wrong that the reader can mend.

    The message names the value seen, the value expected and the next thing to try. The command
    line prints it without a traceback.
    """
