"""Where data sets come from: one file per family, and the few steps they share.

``source`` what is known about a data set · ``catalog`` all of them by name · ``find`` where the files lie ·
``download`` a checked copy in the cache · ``rows``, ``table`` text to columns, ``frame`` frames to columns ·
``items`` the names of items from a second file · ``reading`` the options of a table of one's own ·
``build`` columns to Interactions.
"""
