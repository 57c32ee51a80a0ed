"""Area of a design, measured by Yosys, and project files for vendor tools."""
