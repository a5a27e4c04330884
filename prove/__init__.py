"""
Proofs about SPIR-V for all inputs: instructions as SMT terms, and questions about
them.

- `meaning.py` says what each instruction computes, as terms that agree with the interpreter;
- `executing.py` executes functions with symbols for their inputs;
- `equivalence.py` asks whether a module before and after a pass gives the same for all contents;
- `kernel.py` executes a kernel for any launch, and `questions.py` asks for races, bounds, barriers.

The solvers are an extra: `pip install 'xdsl-spirv[prove]'`. docs/prove.md shows the commands, and
docs/proofs.md lists which rewrites are proved.
"""
