"""
Proves facts about SPIR-V for all inputs: instructions become SMT terms for solvers.

- `meaning.py` gives the result of each instruction as a term that agrees with the interpreter;
- `executing.py` executes functions with symbols for their inputs;
- `equivalence.py` asks if a module gives the same results before and after a pass, for all
  contents;
- `kernel.py` executes a kernel for any launch, and `questions.py` asks for races, bounds, barriers.

The solvers are an extra: `pip install 'xdsl-spirv[prove]'`. docs/prove.md shows the commands, and
docs/proofs.md lists which rewrites are proved.
"""
