"""wheel.py: rank 0 sends every fourth column of a table in the GPU's memory to rank 1, which checks each byte."""
import ctypes
import glob
import os

from mpi4py import MPI

ROWS, ROW, COLUMN = 64, 400, 100
sim = os.environ["LD_LIBRARY_PATH"].split(":")[0]
cuda = ctypes.CDLL(glob.glob(sim + "/libcudart.so.*")[0])


class Table:
    def __init__(self, content):
        pointer = ctypes.c_void_p()
        assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(len(content))) == 0
        self.address, self.bytes = pointer.value, len(content)
        assert cuda.cudaMemcpy(pointer, content, ctypes.c_size_t(len(content)), 1) == 0
        self.__cuda_array_interface__ = {"shape": (len(content),), "typestr": "|u1", "version": 3,
                                         "data": (self.address, False)}

    def read(self):
        content = ctypes.create_string_buffer(self.bytes)
        assert cuda.cudaMemcpy(content, ctypes.c_void_p(self.address), ctypes.c_size_t(self.bytes), 2) == 0
        return content.raw


comm = MPI.COMM_WORLD
content = bytes(i * 7 % 251 for i in range(ROWS * ROW))
table = Table(content if comm.rank == 0 else bytes(len(content)))
column = MPI.BYTE.Create_vector(ROWS, COLUMN, ROW).Commit()
if comm.rank == 0:
    comm.Send([table, 1, column], dest=1, tag=3)
else:
    comm.Recv([table, 1, column], source=0, tag=3)
    assert table.read() == bytes(c if i % ROW < COLUMN else 0 for i, c in enumerate(content))
    print("rank 1 of", comm.size, "has the bytes:", MPI.Get_library_version().split(",")[0].split("\n")[0].replace("\t", " "))
