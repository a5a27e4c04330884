"""
Records of the functions of `math`, which lowering, interpreter and error bounds share.

`functions.py` contains the records. It also defines operations that xDSL's `math` lacks.
"""
