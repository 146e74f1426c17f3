"""NN-Profiler's files, and the mappings of several networks that it draws at random.

https://github.com/Varatheepan/NN-Profiler
"""
