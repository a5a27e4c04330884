"""
Checks a binary against the rules of SPIR-V, and reports all findings with their places.

The rules work on the indexed raw module (`module.py`), because an invalid binary may not be
decodable to the dialect, and places must refer to the binary. Each file here has one group of
rules; `registry.py` defines rules.
"""

from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS as ENVIRONMENTS
from xdsl_spirv.serialization.validation.environment import Environment as Environment
from xdsl_spirv.serialization.validation.registry import Rule as Rule
from xdsl_spirv.serialization.validation.registry import Severity as Severity
from xdsl_spirv.serialization.validation.validator import Finding as Finding
from xdsl_spirv.serialization.validation.validator import rules as rules
from xdsl_spirv.serialization.validation.validator import validate as validate
