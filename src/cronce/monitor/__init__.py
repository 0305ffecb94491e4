"""Seeing it: what is wrong is found by folds over what the store says (`watch`), told once (`alerts`), and counted."""
