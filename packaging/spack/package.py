# Spack recipe. It builds the tree that it lies in. REPO is a new folder, IN the one in it that Spack adds: from Spack
# 1.0 on REPO/spack_repo/local, before REPO.
#   spack repo create REPO local && mkdir IN/packages/stridec
#   ln -s TREE/packaging/spack/package.py IN/packages/stridec
#   spack repo add IN && spack install stridec ^openmpi
import os

from spack.package import *

try:   # from Spack 1.0 on; before, spack.package has it
    from spack_repo.builtin.build_systems.makefile import MakefilePackage
except ImportError:
    pass


class Stridec(MakefilePackage):
    """MPI derived datatypes as GPU kernels, and as code that packs data in host memory: a library that is preloaded
    under unmodified MPI programs (stridec run)."""

    git = "file://" + os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    license("BSD-3-Clause")

    version("main", branch="main", preferred=True)   # a release's tag may not be there
    version("0.1.0", tag="v0.1.0")

    variant("sim", default=False, description="Install the simulated GPU too, for stridec run --sim")

    depends_on("c", type="build")
    depends_on("cuda@11.8:")
    depends_on("gmake", type="build")
    depends_on("lua@5.4", type="build")
    depends_on("mpi", type=("build", "link", "run"))
    depends_on("uthash", type="build")
    depends_on("xxhash", type="build")

    def arguments(self):
        lua = self.spec["lua"].prefix
        return [
            "CC=" + spack_cc,
            "MPICC=" + self.spec["mpi"].mpicc,
            "CUDA_HOME=" + self.spec["cuda"].prefix,
            "LUA=" + lua.bin.lua,
            "LUA_INC=" + lua.include,
            "LUA_LIB=" + join_path(lua.lib, "liblua.a"),
            "PREFIX=" + self.prefix,
        ]

    def build(self, spec, prefix):
        make("all", *(["sim"] if spec.satisfies("+sim") else []), *self.arguments())

    def install(self, spec, prefix):
        make("install", *self.arguments())
