"""The client side of ACP, the Agent Client Protocol: one dialog for every agent that speaks it. Pure."""
