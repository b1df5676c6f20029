! cuda_runtime.f90: the calls of the CUDA runtime that the Fortran examples make. This is no program.
module cuda_runtime
    use, intrinsic :: iso_c_binding
    implicit none
    integer(c_int), parameter :: host_to_device = 1, device_to_host = 2

    interface
        integer(c_int) function cudaMalloc(p, bytes) bind(c, name="cudaMalloc")
            import :: c_int, c_ptr, c_size_t
            type(c_ptr), intent(out) :: p
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function cudaFree(p) bind(c, name="cudaFree")
            import :: c_int, c_ptr
            type(c_ptr), value :: p
        end function
        integer(c_int) function cudaMemcpy(to, from, bytes, kind) bind(c, name="cudaMemcpy")
            import :: c_int, c_ptr, c_size_t
            type(c_ptr), value :: to, from
            integer(c_size_t), value :: bytes
            integer(c_int), value :: kind
        end function
        integer(c_int) function cudaDeviceSynchronize() bind(c, name="cudaDeviceSynchronize")
            import :: c_int
        end function
        integer(c_int) function cudaGetDeviceCount(count) bind(c, name="cudaGetDeviceCount")
            import :: c_int
            integer(c_int), intent(out) :: count
        end function
        integer(c_int) function cudaSetDevice(device) bind(c, name="cudaSetDevice")
            import :: c_int
            integer(c_int), value :: device
        end function
    end interface
end module
