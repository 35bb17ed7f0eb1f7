"""Zeek logs."""
