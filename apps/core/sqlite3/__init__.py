"""Django's SQLite backend with a fair, process-wide writer lock."""
