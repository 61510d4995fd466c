"""Figures 20 to 22 of Bornea, Vassalos, Kotidis, Deligiannakis: MINER, TKDE 2010."""
