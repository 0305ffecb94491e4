"""Slots × holders as a picture: what ran where, how late, under which lease, who took over, and what was refused.

Facts of a span (`pieces`) get places (`layout`), and places become SVG (`draw`); `page` answers the request.
"""
