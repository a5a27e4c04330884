"""
Does a binary keep the rules of SPIR-V? All findings, each with its place.

The rules work on the raw module, indexed (`module.py`): a binary that breaks rules need not be
decodable into the dialect, and places must refer to the binary. Each file here holds one group of
rules; `registry.py` says what a rule is.
"""

from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS as ENVIRONMENTS
from xdsl_spirv.serialization.validation.environment import Environment as Environment
from xdsl_spirv.serialization.validation.registry import Rule as Rule
from xdsl_spirv.serialization.validation.registry import Severity as Severity
from xdsl_spirv.serialization.validation.validator import Finding as Finding
from xdsl_spirv.serialization.validation.validator import rules as rules
from xdsl_spirv.serialization.validation.validator import validate as validate
