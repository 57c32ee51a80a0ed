"""How numbers, tables, plots and progress are shown, in the terminal and in pages."""
