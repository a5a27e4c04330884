"""
Records of the functions of `math`. Lowering, interpreter and error bounds share them.

`functions.py` contains the records. It also defines operations that xDSL's `math` lacks.
"""
