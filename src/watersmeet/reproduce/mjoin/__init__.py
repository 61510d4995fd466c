"""Figures 8 to 11 of Ding, Rundensteiner and Heineman: MJoin, a Metadata-Aware Stream Join."""
