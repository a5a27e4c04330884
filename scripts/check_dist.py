"""
Builds the distributions and checks them: the sdist, and a wheel built from the sdist only.

    python scripts/check_dist.py [FOLDER]      keeps both in FOLDER

The sdist must contain files where the repository has links. twine and check-wheel-contents must
accept both. The wheel must have every module and data file, and its command must compile a kernel.
The builds use a copy of the repository. `--git` builds the repository itself, whose version comes
from its tags.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINKS = [path for path in (ROOT / "src" / "xdsl_spirv").iterdir() if path.is_symlink()]
ROOMS = sorted(path.name for path in LINKS if path.name != "testing")
DATA = {".css", ".html", ".js", ".json", ".py", ".typed"}
EXP = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""


def copy_of_the_tree(target: Path) -> Path:
    """Copies the files that git tracks, with uncommitted changes, without `.git`."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and (source.is_symlink() or source.is_file()):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """Returns the sdist of a folder, and the wheel built from the sdist."""
    command = [sys.executable, "-m", "build", "--outdir", folder, source]
    # The build tools are installed, so that pip downloads nothing.
    if (
        subprocess.run(
            [sys.executable, "-c", "import setuptools_scm"], capture_output=True
        ).returncode
        == 0
    ):
        command.insert(3, "--no-isolation")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_names(sdist: Path, wheel: Path) -> None:
    """Checks that sdist and wheel have every file, and that the wheel has no other file."""
    wanted = {
        f"xdsl_spirv/{room}/{path.relative_to(ROOT / room).as_posix()}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix in DATA and "__pycache__" not in path.parts
    }
    own = (ROOT / "src" / "xdsl_spirv").glob("*.*")
    wanted |= {f"xdsl_spirv/{path.name}" for path in own} | {"xdsl_spirv/_version.py"}
    held = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    if held != wanted:
        sys.exit(f"the wheel and the repository differ in these files: {sorted(held ^ wanted)[:9]}")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    if links := [member.name for member in members if member.issym() or member.islnk()]:
        sys.exit(f"the sdist contains links in place of files: {links[:9]}")
    packed = {member.name.partition("/src/")[2] for member in members}
    if missing := wanted - packed:
        sys.exit(f"the sdist lacks {sorted(missing)[:9]}")


def check_command(wheel: Path, folder: Path) -> None:
    """Checks that the wheel's command compiles a kernel without the repository."""
    zipfile.ZipFile(wheel).extractall(folder / "site")
    (folder / "x.mlir").write_text(EXP)
    code = (
        "import sys, xdsl_spirv.tools.main as m; print(m.__file__); sys.exit(m.main(sys.argv[1:]))"
    )
    words = ["compile", folder / "x.mlir", "--target", "lavapipe", "-o", folder / "program"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "site")},
        capture_output=True,
        text=True,
    )
    if done.returncode or not done.stdout.startswith(str(folder)):
        sys.exit(f"the wheel's command cannot compile a kernel: {done.stdout}{done.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build what would be published, and check it.")
    parser.add_argument("folder", nargs="?", type=Path, help="where to keep it")
    parser.add_argument("--git", action="store_true", help="build the repository itself")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="xdsl-spirv-dist-") as name:
        folder = Path(name)
        source = ROOT if arguments.git else copy_of_the_tree(folder / "source")
        sdist, wheel = build(source, folder / "dist")
        check_names(sdist, wheel)
        for tool in (["twine", "check", "--strict", sdist], ["twine", "check", "--strict", wheel]):
            subprocess.run([sys.executable, "-m", *tool], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-m", "check_wheel_contents", wheel], check=True)
        check_command(wheel, folder)
        if arguments.folder is not None:
            arguments.folder.mkdir(parents=True, exist_ok=True)
            for built in (sdist, wheel):
                shutil.copy2(built, arguments.folder)
        print(f"{sdist.name} ({sdist.stat().st_size:,} bytes), {wheel.name}")


if __name__ == "__main__":
    main()
