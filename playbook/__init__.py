"""Incident knowledge base and playbook engine for failures of deep-learning training."""

__version__ = "0.1.0"
