"""
Proves facts about SPIR-V for all inputs: instructions become SMT terms for solvers.

- `meaning.py` defines the result of each instruction as a term that agrees with the interpreter;
- `executing.py` executes functions with symbols as inputs;
- `equivalence.py` proves that a module has the same results before and after a pass, for all
  contents;
- `kernel.py` executes a kernel for any launch, and `questions.py` tests races, bounds, barriers.

The solvers are an extra: `pip install 'xdsl-spirv[prove]'`. docs/prove.md shows the commands, and
docs/proofs.md lists which rewrites are proved.
"""
