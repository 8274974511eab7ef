"""Containers on nodes whose memory is promised more than once, in virtual time (simulation.md).

The setup is that of a paper: Kang and Yu, doi 10.3745/TKIPS.2024.13.3.91. Three remedies are compared: none, that of
the paper (pause the containers that use the least memory), and ours (hold growth). In: a workload, a degree, a remedy,
a seed, and the parameters that the paper does not give. Out: when each container started and ended, and how often it
was killed.
"""
