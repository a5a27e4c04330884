"""
Fetches Mesa's Vulkan drivers as compilers for GPUs that this machine does not have.

`PREFIX/run DEVICE PROGRAM` starts a program on a driver that believes it has that GPU (see
scripts/debian.py). The driver compiles shaders to the GPU's machine code and runs none of them.

The drivers use no-op kernel shims: small libraries that answer in place of the kernel's driver.
The shims are compiled from Debian's source package of Mesa with this machine's C compiler. `EDITS`
changes their sources where the driver is newer than the shim, or where a chip is missing.
PREFIX/drivers.json lists the devices, and the reasons why other drivers are missing.

Debian has PanVK for 64-bit Arm only. On other machines, QEMU's user-mode emulator runs the driver
in a Python for Arm. `run` starts this Python instead of the given one; other programs cannot load
the driver. PanVK's shim needs the compiler of the package gcc-aarch64-linux-gnu.

    scripts/fetch_drivers.py                   all of them into .drivers
    scripts/fetch_drivers.py --only radv,anv   some of them
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import debian
from fetch_lavapipe import C_LIBRARY

STABLE, NEWEST = "trixie", "sid"
PACKAGES = ["mesa-vulkan-drivers", "libvulkan1", "libstdc++6"]
BUILD_PACKAGES = ["libdrm-dev", "zlib1g-dev", "python3-mako"]
ARM = "arm64"
PYTHON_PACKAGES = ["python3-minimal", "libpython3-stdlib", "python3-numpy"]


@dataclass(frozen=True)
class Driver:
    """
    A driver: file names of library and shim, the environment variable that selects a GPU, and its
    GPUs.

    `devices` maps our name of a GPU to the driver's name and the target. `machine` is Debian's
    name of the only architecture that has the driver, or empty.
    """

    title: str
    library: str
    shim: str
    variable: str
    devices: dict[str, tuple[str, str]]
    environment: dict[str, str] = field(default_factory=dict[str, str])
    machine: str = ""

    @property
    def emulated(self) -> str:
        """Debian's name of the architecture to emulate. Empty if this machine has it."""
        return "" if platform.machine() == "aarch64" else self.machine


DRIVERS = {
    "radv": Driver(
        "RADV",
        "radeon",
        "amdgpu",
        "AMDGPU_GPU_ID",
        {
            "amd:navi21": ("navi21", "amd-rdna2"),
            "amd:navi31": ("navi31", "amd-rdna3"),
            "amd:gfx1151": ("gfx1151", "amd-rdna3.5"),
            "amd:gfx1201": ("gfx1201", "amd-rdna4"),
        },
    ),
    "anv": Driver(
        "ANV",
        "intel",
        "intel",
        "INTEL_STUB_GPU_PLATFORM",
        {
            "intel:dg2": ("dg2", "intel-dg2"),
            "intel:lnl": ("lnl", "intel-lnl"),
            "intel:bmg": ("bmg", "intel-xe2"),
        },
    ),
    "nvk": Driver(
        "NVK",
        "nouveau",
        "nouveau",
        "NOUVEAU_CHIPSET",
        {"nvidia:ga102": ("172", "nvidia-ampere"), "nvidia:ad102": ("192", "nvidia-ada")},
        {"NVK_I_WANT_A_BROKEN_VULKAN_DRIVER": "1"},
    ),
    "turnip": Driver(
        "Turnip",
        "freedreno",
        "freedreno",
        "FD_GPU_ID",
        {"qualcomm:740": ("740", "qualcomm-adreno")},
    ),
    "panvk": Driver(
        "PanVK",
        "panfrost",
        "panfrost",
        "PAN_GPU_ID",
        {"arm:g610": ("a867", "arm-mali")},
        {"PAN_I_WANT_A_BROKEN_VULKAN_DRIVER": "1"},
        ARM,
    ),
    "honeykrisp": Driver(
        "Honeykrisp", "asahi", "asahi", "ASAHI_CHIP", {"apple:m1": ("g13g", "apple-m1")}
    ),
}

ADA_CLASSES = {
    "GA102_3D_CLASS": "0xc997",
    "GA102_COMPUTE_CLASS": "0xc9c0",
    "AMPERE_DMA_COPY_A": "0xc7b5",
}
"""Engine class of Ampere -> class id of the same engine on Ada."""


def _derive_chip(fields: dict[str, str], entry: re.Match[str]) -> str:
    """Returns a chip's table entry, followed by a copy with other `fields` for a missing chip."""
    made = entry[0]
    for field_name, value in fields.items():
        made = re.sub(rf"(\.{field_name} = )[^,]+", rf"\g<1>{value}", made)
    return f"{entry[0]},\n{made}"


def _add_ada(case: re.Match[str]) -> str:
    return f"case 0x190:{case[1]}{ADA_CLASSES[case[2]]};\n break;\n{case[0]}"


SHIM_SOURCES = {
    "amdgpu": ["amd/drm-shim/amdgpu_noop_drm_shim.c", "amd/drm-shim/amdgpu_devices.c"],
    "nouveau": ["nouveau/drm-shim/nouveau_noop.c"],
    "freedreno": ["freedreno/drm-shim/freedreno_noop.c"],
    "panfrost": ["panfrost/drm-shim/panfrost_noop.c"],
    "intel": [
        *("intel/tools/intel_noop_drm_shim.c", "intel/dev/intel_device_info.c"),
        *("intel/dev/intel_hwconfig.c", "intel/dev/intel_kmd.c", "intel/dev/intel_debug.c"),
        *("intel/dev/i915/intel_device_info.c", "intel/dev/xe/intel_device_info.c"),
        *("intel/common/intel_gem.c", "intel/common/i915/intel_gem.c"),
        *("intel/common/xe/intel_gem.c", "util/parson.c"),
    ],
}
CHIPS = {
    "gfx1150": {
        "name": '"gfx1151"',
        "ip_discovery_version": "0xb0501",
        "external_rev": "0xc1",
        "num_shader_visible_vgprs": "1536",
    },
    "navi31": {
        "name": '"gfx1201"',
        "hw_ip_version_major": "12",
        "ip_discovery_version": "0xc0001",
        "external_rev": "0x51",
        "family": "AMDGPU_FAMILY_GC_12_0_0",
    },
}
"""AMD chip that the shim defines -> the fields in which a chip to add differs from it."""
EDITS = {
    # RADV requires this version of the kernel's interface. Compiling needs none of its additions.
    "amd/drm-shim/amdgpu_noop_drm_shim.c": {r"version_minor = \d+": "version_minor = 54"},
    "amd/drm-shim/amdgpu_devices.c": {
        rf'   \{{\n      \.name = "{like}".*?\n   \}}': partial(_derive_chip, fields)
        for like, fields in CHIPS.items()
    },
    "nouveau/drm-shim/nouveau_noop.c": {
        r"case 0x170:(\s+\S+ = )(GA102_3D_CLASS|GA102_COMPUTE_CLASS|AMPERE_DMA_COPY_A)": _add_ada
    },
}
"""Patterns in the sources of shims, and their replacements."""
UNSUPPORTED = {
    "asahi": "Mesa 25.0's shim has another version of the kernel's interface than the driver",
}
COMMON = [
    "drm-shim/device.c",
    "drm-shim/drm_shim.c",
    "c11/impl/threads_posix.c",
    "c11/impl/time.c",
    *(
        f"util/{name}.c"
        for name in """hash_table set ralloc vma u_debug os_misc log anon_file u_call_once rb_tree
        simple_mtx u_printf os_file memstream blob mesa-sha1 sha1/sha1 half_float u_process
        u_cpu_detect u_dl u_math u_worklist bitscan""".split()
    ),
]
FLAGS = """-c -O1 -fPIC -DNDEBUG
 -w -fvisibility=hidden -ffunction-sections -fdata-sections -D_GNU_SOURCE
-DUTIL_ARCH_LITTLE_ENDIAN=1 -DUTIL_ARCH_BIG_ENDIAN=0 -DHAVE_STRUCT_TIMESPEC -DHAVE_PTHREAD
-DHAVE_SECURE_GETENV -DHAVE_ENDIAN_H -DHAVE_MEMFD_CREATE -DHAVE_DLFCN_H -DHAVE_TIMESPEC_GET
-DHAVE_NOATEXIT -DHAVE___BUILTIN_CLZ -DHAVE___BUILTIN_CLZLL -DHAVE___BUILTIN_CTZ
-DHAVE___BUILTIN_FFS -DHAVE___BUILTIN_FFSLL -DHAVE___BUILTIN_POPCOUNT
-DHAVE___BUILTIN_POPCOUNTLL""".split()

RUN = """#!/bin/sh
# run DEVICE PROGRAM ARGUMENTS...: a program of this machine on a driver that compiles for DEVICE.
here=$(cd "$(dirname "$0")" && pwd)
device=$1 program=$2 machine=; shift 2
case $device in
{cases}
  *) echo "no driver here compiles for $device" >&2; exit 2;;
esac
case $program in */*) ;; *) program=$(command -v "$program");; esac
here="$here$machine"
export VK_DRIVER_FILES="$here/$driver.json" VK_ICD_FILENAMES="$here/$driver.json"
export VK_LOADER_LAYERS_DISABLE='~implicit~' MESA_SHADER_CACHE_DISABLE=true
if [ -n "$machine" ]; then
  case ${{program##*/}} in
    python*) ;;
    *) echo "the driver for $device is emulated: it runs with Python only" >&2; exit 2;;
  esac
  # This machine's packages stay on the path, but not the standard library of its Python.
  packages=$(printf %s "$PYTHONPATH" | tr : '\\n' \\
    | grep -vE 'python3[0-9.]*(/lib-dynload|\\.zip)?$' | paste -sd:)
  export PYTHONPATH="$here/usr/lib/python3/dist-packages:$packages"
  export PYTHONHOME="$here/usr" PYTHONPYCACHEPREFIX="$here/cache"
  unset PYTHONDONTWRITEBYTECODE  # an emulated Python takes long to compile its modules
  exec "$here/qemu-aarch64" -cpu cortex-a72 "$here/lib/ld-linux-aarch64.so.1" \\
    --preload "$here/$shim" --library-path "$here/lib" "$here/usr/bin/python3" "$@"
fi
exec "$here/lib/{loader}" --argv0 "$program" --preload "$here/$shim" \\
  --library-path "$here/lib" "$(readlink -f "$program")" "$@"
"""


def compiler(machine: str) -> str:
    """Returns a C compiler for this machine or for `machine`. Raises `Unavailable`."""
    here = (os.environ.get("CC", "cc"), "gcc", "clang")
    for name in ("aarch64-linux-gnu-gcc",) if machine else here:
        if shutil.which(name):
            return name
    what = "aarch64-linux-gnu-gcc (package gcc-aarch64-linux-gnu)" if machine else "C compiler"
    raise debian.Unavailable(f"this machine has no {what}, which builds the shim")


class Shims:
    """Builds shims from Debian's source package of Mesa, which is downloaded on first use."""

    def __init__(self, work: Path):
        self.work = work
        self.failure: debian.Unavailable | None = None
        self.flags: list[str] = []

    def build(self, name: str, output: Path, machine: str) -> None:
        """Builds a shim for this machine or an emulated one. Raises `Unavailable`."""
        program = compiler(machine)
        if name in UNSUPPORTED:
            raise debian.Unavailable(UNSUPPORTED[name])
        if self.failure is None and not self.flags:
            try:
                self._prepare()
            except debian.Unavailable as error:
                self.failure = error
        if self.failure is not None:
            raise self.failure
        sources = [self.source / "src" / path for path in SHIM_SOURCES[name]]
        for path, source in zip(SHIM_SOURCES[name], sources, strict=True):
            for pattern, replacement in EDITS.get(path, {}).items():
                text, count = re.subn(pattern, replacement, source.read_text(), flags=re.DOTALL)
                if not count:
                    raise debian.Unavailable(
                        f"{source.name} has changed: it does not contain {pattern}"
                    )
                source.write_text(text)
        if name == "intel":
            sources += self._generate_intel()
        objects = self._objects(program, sources, name)
        shared = [self.source / "src" / path for path in COMMON]
        common = self._objects(program, shared, f"common{machine}")
        # Links the shim's two files completely, and only those parts of Mesa's utilities that the
        # shim calls.
        archive = self.work / "libutil.a"
        archive.unlink(missing_ok=True)
        debian.command("ar", "rcs", archive, *common[2:])
        debian.command(
            *(program, "-shared", "-fPIC", "-o", output, *objects, *common[:2]),
            *("-Wl,--gc-sections", "-Wl,-z,defs", archive, "-lm", "-ldl", "-lpthread"),
        )

    def _prepare(self) -> None:
        self.source = debian.download_source(STABLE, "mesa", self.work / "source")
        unpacked = debian.download(STABLE, BUILD_PACKAGES, self.work / "tools")
        self.python_path = unpacked / "usr/lib/python3/dist-packages"
        include = self.work / "include"
        include.mkdir()
        # The compiler must not find the headers of a newer C library in the same folder.
        for path in (unpacked / "usr/include").iterdir():
            if path.name.startswith(("xf86drm", "zlib", "zconf")):
                shutil.copyfile(path, include / path.name)
        for path in (unpacked / "usr/include").rglob("zconf.h"):
            shutil.copyfile(path, include / "zconf.h")
        shutil.copytree(unpacked / "usr/include/libdrm", include / "libdrm")
        self.generated = self.work / "generated"
        (self.generated / "intel/dev").mkdir(parents=True)
        (self.generated / "git_sha1.h").touch()
        src = self.source / "src"
        folders = [self.source / "include", src, src / "util"]
        folders += [src / part for part in ("amd", "intel", "intel/dev", "intel/common")]
        folders += [
            self.generated,
            self.generated / "intel",
            self.generated / "intel/dev",
            include,
            include / "libdrm",
        ]
        self.flags = [*FLAGS, *(f"-I{folder}" for folder in folders)]

    def _generate_intel(self) -> list[Path]:
        scripts, into = self.source / "src/intel/dev", self.generated / "intel/dev"
        python = "env", f"PYTHONPATH={self.python_path}", sys.executable
        sources = [into / "intel_wa.c", into / "intel_device_info_serialize_gen.c"]
        defs = scripts / "mesa_defs.json"
        for script, *arguments in (
            ("gen_wa_helpers.py", defs, into / "intel_wa.h", sources[0]),
            ("intel_device_info_gen_h.py", into / "intel_device_info_gen.h"),
            ("intel_device_info_serialize_gen_c.py", sources[1]),
        ):
            debian.command(*python, scripts / script, *arguments)
        return sources

    def _objects(self, program: str, sources: list[Path], name: str) -> list[Path]:
        folder = self.work / "objects" / name
        folder.mkdir(parents=True, exist_ok=True)
        objects = [folder / f"{number}-{path.stem}.o" for number, path in enumerate(sources)]
        left = [pair for pair in zip(sources, objects, strict=True) if not pair[1].exists()]
        running = [
            (source, subprocess.Popen([program, *self.flags, source, "-o", made], stderr=-1))
            for source, made in left
            if source.is_file()
        ]
        for source, process in running:
            said = process.communicate()[1].decode(errors="replace")
            if process.returncode:
                first = next((x for x in said.splitlines() if "error" in x), said[:200])
                raise debian.Unavailable(
                    f"{source.name} does not compile: {first.split(': ', 1)[-1]}"
                )
        return [made for made in objects if made.exists()]


def lay_out(unpacked: dict[str, Path], prefix: Path, wanted: list[str], work: Path) -> None:
    """Writes the drivers, their libraries and shims, `run` and drivers.json into `prefix`."""
    _, loader = debian.machine()
    shims = Shims(work)
    devices: list[dict[str, str]] = []
    unavailable: dict[str, str] = {}
    cases: list[str] = []
    for name in wanted:
        driver = DRIVERS[name]
        packages = unpacked[driver.emulated]
        try:
            _add(name, driver, packages, prefix, shims)
        except debian.Unavailable as error:
            unavailable[name] = str(error)
            print(f"no {driver.title}: {error}", file=sys.stderr)
            continue
        mesa = version(packages.parent)
        for device, (chip, target) in driver.devices.items():
            facts = {"device": device, "driver": driver.title, "mesa": mesa, "target": target}
            devices.append(facts)
            settings = driver.environment | {driver.variable: chip}
            exports = " ".join(f"{key}={value}" for key, value in settings.items())
            machine = f" machine=/{driver.emulated}" if driver.emulated else ""
            cases.append(
                f"  {device}) export {exports}; driver={name} shim={driver.shim}.so{machine};;"
            )
    if not devices:
        reasons = "; ".join(f"{name}: {why}" for name, why in unavailable.items())
        raise debian.Unavailable(reasons)
    run = prefix / "run"
    run.write_text(RUN.format(cases="\n".join(cases), loader=loader))
    run.chmod(0o755)
    listed = {"devices": devices, "unavailable": unavailable}
    (prefix / "drivers.json").write_text(json.dumps(listed, indent=1) + "\n")
    for facts in devices:
        probe = "import ctypes; ctypes.CDLL('libvulkan.so.1')"
        debian.command(run, facts["device"], sys.executable, "-c", probe)


def _add(name: str, driver: Driver, unpacked: Path, prefix: Path, shims: Shims) -> None:
    """Writes a driver, its libraries and its shim into `prefix`. Raises `Unavailable`."""
    machine = driver.emulated
    home = prefix / machine
    loader = "ld-linux-aarch64.so.1" if machine else debian.machine()[1]
    libraries = debian.libraries_of(unpacked)
    library = f"libvulkan_{driver.library}.so"
    if library not in libraries:
        mesa = version(unpacked.parent)
        raise debian.Unavailable(f"Debian's Mesa {mesa} has no {library} for this machine")
    (home / "lib").mkdir(parents=True, exist_ok=True)
    shims.build(driver.shim, home / f"{driver.shim}.so", machine)
    roots, emulator = ["libvulkan.so.1", library], []
    if machine:
        modules = _add_python(unpacked, home, shims.work)
        roots, emulator = roots + modules, [home / "qemu-aarch64"]
    names = debian.closure(roots, libraries, *emulator, libraries[loader])
    names |= set(C_LIBRARY) & libraries.keys() | {loader}
    for needed in sorted(names - {library, *roots[2:]}):
        if not (home / "lib" / needed).exists():
            shutil.copyfile(libraries[needed], home / "lib" / needed)
    (home / "lib" / loader).chmod(0o755)
    shutil.copyfile(libraries[library], home / f"{name}.so")
    icd = {"api_version": "1.4.335", "library_path": f"./{name}.so"}
    manifest = {"file_format_version": "1.0.1", "ICD": icd}
    (home / f"{name}.json").write_text(json.dumps(manifest))


def _add_python(unpacked: Path, home: Path, work: Path) -> list[str]:
    """Copies QEMU and Python for AArch64 into `home`. Returns names of Python's shared objects."""
    qemu = debian.download(STABLE, ["qemu-user"], work / "qemu") / "usr/bin/qemu-aarch64"
    shutil.copy(qemu, home)
    [program] = unpacked.glob("usr/bin/python3.*[0-9]")
    modules: list[str] = []
    for folder in (f"usr/lib/{program.name}", "usr/lib/python3/dist-packages/numpy"):
        left_out = shutil.ignore_patterns("tests", "__pycache__", "*.pyi", "*.a")
        shutil.copytree(unpacked / folder, home / folder, ignore=left_out, symlinks=True)
        modules += [path.name for path in (home / folder).rglob("*-linux-gnu.so")]
    (home / "usr/bin").mkdir()
    shutil.copy(program, home / "usr/bin/python3")
    return modules


def version(work: Path) -> str:
    """Returns the version of Mesa among a suite's downloaded packages."""
    [archive] = (work / "cache/archives").glob("mesa-vulkan-drivers_*.deb")
    return re.split("[-~+]", archive.name.split("_")[1])[0]


def fetch(arguments: argparse.Namespace, prefix: Path) -> None:
    """Installs the wanted drivers in the folder `prefix`, or raises `Unavailable`."""
    wanted = list(DRIVERS) if arguments.only is None else arguments.only.split(",")
    unknown = sorted(set(wanted) - set(DRIVERS))
    if unknown:
        known = ", ".join(DRIVERS)
        raise debian.Unavailable(f"there is no driver {unknown[0]}: the drivers are {known}")
    machines = dict.fromkeys(DRIVERS[name].emulated for name in wanted)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    debian.machine()
    with tempfile.TemporaryDirectory(dir=prefix.parent, prefix=f"{prefix.name}-new-") as folder:
        work, staging = Path(folder, "work"), Path(folder, "prefix")
        unpacked = {
            machine: debian.download(
                NEWEST, PACKAGES + PYTHON_PACKAGES * bool(machine), work / f"apt-{machine}", machine
            )
            for machine in machines
        }
        lay_out(unpacked, staging, wanted, work)
        shutil.rmtree(prefix, ignore_errors=True)
        os.rename(staging, prefix)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Fetch Mesa's drivers as compilers for missing GPUs, without root."
    )
    parser.add_argument(
        "--only", metavar="NAMES", help=f"separated by commas, of {', '.join(DRIVERS)}"
    )
    return debian.main("drivers", parser, fetch, ("run", "drivers.json"))


if __name__ == "__main__":
    sys.exit(main())
