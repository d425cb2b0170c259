"""Agent sessions and the provider keys of Projects (contract section 10)."""
