"""Neural-network pruning, taught and measured."""

__version__ = "0.1.0"
