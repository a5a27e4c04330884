"""
`math`: exact functions in their type, others in binary64 and rounded once.
"""

from __future__ import annotations

from xdsl_spirv.dialects.scalars.functions import RECORDS
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter.semantics import value_table

value_table(
    {
        record.op: (ew.in_binary32 if record.is_exact else ew.wide_math)(record.meaning)
        for record in RECORDS
    }
)
