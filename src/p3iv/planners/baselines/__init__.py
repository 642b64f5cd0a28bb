"""The planners that the paper compares with, and simple lower bounds."""
