#!/usr/bin/env python3
"""The management commands; ``loomsvc`` is the same under another name."""

from loomsvc.cli import main

if __name__ == "__main__":
    main()
