"""Django's PostgreSQL backend that asks less often whether a connection still stands."""
