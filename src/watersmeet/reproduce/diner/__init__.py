"""Figures 7 to 19 of Bornea, Vassalos, Kotidis, Deligiannakis: DINER, TKDE 2010."""
