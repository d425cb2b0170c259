"""``python -m loomsvc`` is ``loomsvc`` where its script is not on the path."""

from loomsvc.cli import main

main()
