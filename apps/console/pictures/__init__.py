"""Pictures as pure functions: what they are given in, SVG text out."""
