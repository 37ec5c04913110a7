"""Simulation: a model of what steps cost, fitted to measured ones, and a runner that lets that much time pass."""
