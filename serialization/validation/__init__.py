"""
Checks a binary against the rules of SPIR-V, and reports all findings with their places.

The rules read the raw module and its index (`module.py`), because the dialect cannot represent
every invalid binary, and findings refer to words of the binary. Each file has one group of rules;
`registry.py` registers them.
"""

from xdsl_spirv.serialization.validation.environment import ENVIRONMENTS as ENVIRONMENTS
from xdsl_spirv.serialization.validation.environment import Environment as Environment
from xdsl_spirv.serialization.validation.registry import Rule as Rule
from xdsl_spirv.serialization.validation.registry import Severity as Severity
from xdsl_spirv.serialization.validation.validator import Finding as Finding
from xdsl_spirv.serialization.validation.validator import rules as rules
from xdsl_spirv.serialization.validation.validator import validate as validate
