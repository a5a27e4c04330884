"""
Builds the page that tests a kernel in the browser: `build/tutorials/browser/try`.

Python's 99 MB of WebAssembly would take minutes to load on a phone. So this script lets Python
serve some requests in headless Chromium. The page loads only the functions that were called, short
functions next to them, and a snapshot of the memory. A kernel that needs another function, module
or file makes the page load all of Python, as the tutorials do.

    python scripts/build_try_page.py [FOLDER]     after scripts/build_browser_tutorials.py
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wasm_functions
from build_browser_tutorials import DOWNLOADS, OUT, ROOT
from build_runner_page import copy_naga
from check_browser_tutorials import serve
from playwright.sync_api import sync_playwright

sys.path.append(str(ROOT / "scripts" / "pages"))
import rule_page

PARTS = ROOT / "scripts" / "pages" / "try"
PAGE = OUT / "try"
PACKAGES = {
    "@webgpu/glslang@0.0.15": {
        "web-devel/glslang.js": "glslang/glslang.js",
        "web-devel/glslang.wasm": "glslang/glslang.wasm",
    },
    "xz-decompress@0.2.3": {"package/xz-decompress.min.js": "xz-decompress.js"},
}
"""Packages of npm: path in the package -> path in the page's folder."""

XZ = {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 1 << 24}
WORDS = {"lp": 2, "lc": 0, "pb": 2}
"""LZMA parameters for data in 32-bit words."""

TESTS = ROOT / "tests"

EXAMPLES = {
    "A missing barrier": "reduce-without-barrier",
    "A race between workgroups": "in-place-stencil",
    "A store out of bounds": "guard-off-by-one",
    "Shared memory without a value": "histogram-not-zeroed",
    "A barrier that some do not reach": "barrier-in-branch",
}
"""Folders of test kernels that the page offers as examples, by title."""

PROSE = re.compile(rb"[\x20-\x7e\n\t]{400,}")

FEATURES = (
    *(
        f"kernels/{name}.comp"
        for name in (
            "addresses-alias/broken",
            "address-beyond-buffer/repaired",
            "ballot-mask-of-32/broken",
            "barrier-trip-count/broken",
            "bit-field-beyond-word/repaired",
            "broadcast-from-inactive/repaired",
            "cas-loop-plain-read/repaired",
            "cluster-beyond-subgroup/repaired",
            "fence-beside-barrier/right",
            "flag-nobody-sets/broken",
            "gelu-pow/broken",
            "in-place-stencil/repaired",
            "matmul-tile-reuse/repaired",
            "pack-bytes/broken",
            "shared-memory-limit/broken",
            "unpack-halves/broken",
            "whole-workgroup-returns/right",
        )
    ),
    *(
        f"interpreter/glsl/{name}.comp"
        for name in (
            "atomics",
            "atomics64",
            "extended",
            "f16",
            "float_funcs",
            "int_int",
            "int_int16_t",
            "int_int8_t",
            "int_uint64_t",
            "int_uint8_t",
            "layouts",
            "matrix",
            "pack",
            "sg_double",
            "sg_float16_t",
            "spec_all",
        )
    ),
)
"""Test kernels that use further Python functions. The page contains these functions, too."""

ASSEMBLY = ROOT / "tutorials" / "data"
WGSL = """\
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> tile: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) i: vec3u, @builtin(local_invocation_index) l: u32) {
    tile[l] = x[i.x];
    y[i.x] = tile[63u - l];
}
"""
ENDLESS = """\
#version 450
layout(local_size_x = 1) in;
layout(binding = 0) buffer Data { uint x[]; };
void main() { while (x[0] == x[0]) x[1] += 1; }
"""
NUMBERS = """\
#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { float a[]; };
layout(binding = 1) buffer B { uint b[]; };
layout(binding = 2) buffer C { int c[]; };
void main() { uint i = gl_LocalInvocationID.x; a[i] = 2.0; b[i] += 1; c[i] += 1; }
"""

Request = dict[str, str]


@dataclass
class Picture:
    """A snapshot of Python's memory: number of pages, indices and contents of nonzero pages."""

    pages: int
    used: list[int]
    contents: bytes


def examples() -> list[Request]:
    """Returns the kernels that the page offers, with their launches."""
    return [
        _of_test(TESTS / "kernels" / name / "broken.comp", title)
        for title, name in EXAMPLES.items()
    ]


def _of_test(path: Path, title: str) -> Request:
    description = path.with_name(f"{path.stem}.kernel.toml").read_text()
    launch = re.sub(
        r"(?ms)^#.*?\n|^(kernel|\[compile\]\ntarget-env) = .*?\n\n?|\n\[expect\].*", "", description
    )
    tomllib.loads(launch)
    source = path.read_text()
    return {"title": title, "language": "glsl", "source": source, "launch": launch.strip() + "\n"}


def _bare(path: Path) -> Request:
    return {"title": path.name, "language": "glsl", "source": path.read_text()}


def requests() -> Iterator[Request]:
    """Yields kernels whose functions and modules the page contains (examples first)."""
    yield from examples()
    yield {"title": "WGSL", "language": "wgsl", "source": WGSL}
    text = (ASSEMBLY / "sum.spvasm").read_text()
    yield {"title": "assembly", "language": "spirv", "source": text}
    yield {"title": "no assembly", "language": "spirv", "source": text.replace("OpLoad", "OpLod")}
    yield {
        "title": "endless",
        "language": "glsl",
        "source": ENDLESS,
        "launch": "max-steps = 1000\n"
        'grid = 1\n[buffers.Data]\ntype = "u32"\nsize = 2\ncontent = "zeros"\n',
    }
    random = (
        '[buffers.{}]\ntype = "{}"\nsize = 64\ncontent = "random"\n'.format(*buffer)
        for buffer in (("C", "i32"), ("B", "u32"), ("A", "f32"))
    )
    numbers = "grid = 1\n" + "".join(random)
    for expected in (2, 3):
        launch = f"{numbers}expect = {expected}\n"
        yield {"title": "numbers", "language": "glsl", "source": NUMBERS, "launch": launch}
    first = next(iter(examples()))
    for launch in ("", "grid = [", first["launch"] + "[buffers.Other]\nsize = 2\n"):
        yield {**first, "title": f"launch {launch[-9:]!r}", "launch": launch}
    for place in FEATURES:
        path = TESTS / place
        described = path.with_name(f"{path.stem}.kernel.toml").exists()
        yield _of_test(path, place) if described else _bare(path)


def copy_parts(folder: Path) -> None:
    """Copies other projects' files and the page's own files."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PARTS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    copy_naga(folder / "naga")
    shutil.copytree(OUT / "wasi", folder / "wasi")
    for package, files in PACKAGES.items():
        _unpack(package, files, folder)


def _unpack(package: str, files: dict[str, str], folder: Path) -> None:
    archive = DOWNLOADS / f"{package.removeprefix('@').replace('/', '-').replace('@', '-')}.tgz"
    if not archive.exists():
        command = ["npm", "pack", "--silent", package]
        subprocess.run(command, cwd=DOWNLOADS, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(archive) as members:
        for name, place in files.items():
            content = members.extractfile(f"package/dist/{name}")
            assert content is not None
            (folder / place).parent.mkdir(exist_ok=True)
            # `this` is undefined in a module.
            (folder / place).write_bytes(content.read().replace(b"}(this,", b"}(globalThis,"))


def take_picture(module: bytes, corpus: list[Request]) -> tuple[Picture, list[bytes]]:
    """
    Serves requests with a Python in Chromium.

    Returns the memory's snapshot, and a list: bytes that are 1 for each called function, then the
    binaries of the requests.
    """
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("Chromium is not installed (Debian: chromium)")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name, "page")
        copy_parts(folder)
        for archive in ("library.zip", "site.zip"):
            shutil.copy(OUT / archive, folder)
        (folder / "noting.wasm").write_bytes(wasm_functions.note_calls(module))
        (folder / "index.html").write_text("")
        server = serve(folder)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: print(message.text))
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        asked = {
            "base": wasm_functions.memory_bytes(module),
            "functions": wasm_functions.functions(module),
            "requests": corpus,
            "again": len(corpus) - len(FEATURES),
        }
        call = "async (asked) => (await import('./snapshot.js')).make(asked, 'noting.wasm')"
        made = page.evaluate(call, asked)
        browser.close()
        server.shutdown()
    contents, *rest = (gzip.decompress(base64.b64decode(part)) for part in made["parts"])
    return Picture(made["pages"], made["used"], contents), rest


def without_prose(picture: Picture, module: bytes) -> bytes:
    """Returns the used memory pages, with built-in documentation overwritten by zeros."""
    size = wasm_functions.PAGE
    spans = [slice(number * size, (number + 1) * size) for number in picture.used]
    memory = bytearray(picture.pages * size)
    for place, span in enumerate(spans):
        memory[span] = picture.contents[place * size : (place + 1) * size]
    for start, end in wasm_functions.constants(module):
        for prose in list(PROSE.finditer(memory, start, end)):
            memory[prose.start() : prose.end()] = bytes(prose.end() - prose.start())
    return b"".join(memory[span] for span in spans)


def _compress(data: bytes, settings: dict[str, int] | None = None) -> bytes:
    """Compresses to xz with CRC32, the only check that the page's decompressor supports."""
    return lzma.compress(data, check=lzma.CHECK_CRC32, filters=[{**XZ, **(settings or {})}])


def build(folder: Path) -> None:
    """Writes the page and its files to a folder."""
    module = gzip.decompress((OUT / "python.wasm.gz").read_bytes())
    picture, (called, *binaries) = take_picture(module, list(requests()))
    copy_parts(folder)
    for name in ("snapshot.js", "tidy.py", "plain.py"):
        (folder / name).unlink()
    functions = _compress(wasm_functions.keep(module, called))
    (folder / "python.wasm.xz").write_bytes(functions)
    contents = _compress(without_prose(picture, module), WORDS)
    (folder / "memory.xz").write_bytes(contents)
    data: dict[str, Any] = {
        "examples": [
            {**example, "binary": base64.b64encode(binary).decode()}
            for example, binary in zip(examples(), binaries, strict=False)
        ],
        "rules": rule_page.places(),
        "pages": picture.pages,
        "used": picture.used,
        "bytes": len(functions) + len(contents),
        "version": hashlib.sha256(contents + functions).hexdigest()[:16],
    }
    (folder / "data.json").write_text(json.dumps(data))


if __name__ == "__main__":
    page = Path(sys.argv[1]) if sys.argv[1:] else PAGE
    build(page)
    size = sum(path.stat().st_size for path in page.rglob("*") if path.is_file())
    print(f"the page that tests kernels in {page}, {size / 1e6:.1f} MB")
