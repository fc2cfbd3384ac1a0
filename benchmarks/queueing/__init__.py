"""A serving container as a queueing network: what two cores cannot show, and what is known exactly.

Used to test the knee and the search. Its numbers are a model's, never a measurement's: whatever
shows them says "simulated".
"""
