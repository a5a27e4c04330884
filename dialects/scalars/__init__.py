"""
One record for each function of `math`, which lowering, interpreter and error bounds read.

`functions.py` has the records. A function that xDSL's `math` lacks is one more class there.
"""
