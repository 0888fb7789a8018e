"""``python -m helpers.notebooks``: the same as ``course notebooks``."""

import argparse

from helpers.notebooks import add_arguments, run

parser = argparse.ArgumentParser(prog="course notebooks", description="Execute and check the course's notebooks.")
add_arguments(parser)
raise SystemExit(run(parser.parse_args()))
