"""The bell and the worker of a service that is one process (``loomsvc up``)."""
