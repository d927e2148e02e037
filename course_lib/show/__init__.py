"""Figures with an interval, a random baseline and a text alternative; tables, drawings for
slides; explorers with sliders and switches.
"""
