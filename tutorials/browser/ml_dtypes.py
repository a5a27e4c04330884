"""
Replaces ml_dtypes in the browser, because it has no build for WebAssembly.

Its types exist, so that tables can name them, but numpy refuses arithmetic in them.
"""

import numpy as np

_BYTES = {"bfloat16": 2}
_NAMES = (
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int2", "uint2", "int4", "uint4"),
)
globals().update({name: np.dtype([(name, f"u{_BYTES.get(name, 1)}")]) for name in _NAMES})
finfo, iinfo = np.finfo, np.iinfo
