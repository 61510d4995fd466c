"""Figures 4 to 6 of Naeem, Weber, Lutteroth: A Memory-Optimal Many-To-Many Semi-Stream Join."""
