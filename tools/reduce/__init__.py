"""Finds the smallest kernel, launch or model that still fails."""
