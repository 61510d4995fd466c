"""Figures 8 to 12 of Tao, Yiu, Papadias, Hadjieleftheriou, Mamoulis: RPJ, SIGMOD 2005."""
