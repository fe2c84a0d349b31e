"""Poses and cameras."""
