! halo_openacc.f90: MPI on the GPU's copy of an array that OpenACC keeps there: strided rows of a Fortran array.
!
! build: mpifort -fopenacc halo_openacc.f90 -o halo_openacc        (nvfortran: -acc; or make examples)
! run: mpirun -n 2 stridec run -- build/examples/halo_openacc
!
! Each rank holds rows 1 to nx of an array, and a ghost row at both ends; a row's elements lie nx + 2 apart.
! `host_data use_device` gives MPI the address on the GPU, so that the rows go from GPU to GPU. A compiler without a
! GPU to compile for runs the same program in host memory. Every element is checked.
program halo_openacc
    use mpi_f08
    use openacc
    use, intrinsic :: iso_fortran_env, only: real64
    implicit none
    integer, parameter :: nx = 100, ny = 300
    real(real64) :: u(0:nx + 1, ny)
    integer :: rank, ranks, left, right, local, i, j, wrong
    type(MPI_Comm) :: node
    type(MPI_Datatype) :: row

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    left = modulo(rank - 1, ranks)
    right = modulo(rank + 1, ranks)
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
    call MPI_Comm_rank(node, local)
    if (acc_get_num_devices(acc_get_device_type()) > 0) &
        call acc_set_device_num(mod(local, acc_get_num_devices(acc_get_device_type())), acc_get_device_type())
    call MPI_Type_vector(ny, 1, nx + 2, MPI_DOUBLE_PRECISION, row)
    call MPI_Type_commit(row)

    u = -1
    !$acc data copy(u)
    !$acc parallel loop collapse(2)
    do j = 1, ny
        do i = 1, nx
            u(i, j) = value(rank, i, j)
        end do
    end do

    !$acc host_data use_device(u)
    call MPI_Sendrecv(u(nx, 1), 1, row, right, 0, u(0, 1), 1, row, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(u(1, 1), 1, row, left, 1, u(nx + 1, 1), 1, row, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    !$acc end host_data
    !$acc end data

    wrong = 0
    do j = 1, ny
        if (u(0, j) /= value(left, nx, j)) wrong = wrong + 1
        if (u(nx + 1, j) /= value(right, 1, j)) wrong = wrong + 1
        do i = 1, nx
            if (u(i, j) /= value(rank, i, j)) wrong = wrong + 1
        end do
    end do
    call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) print '(a,i0,2a)', "halo_openacc: ", ranks, " ranks: ", &
        trim(merge("verified", "WRONG   ", wrong == 0))
    call MPI_Type_free(row)
    call MPI_Comm_free(node)
    call MPI_Finalize()
    if (wrong /= 0) error stop 1

contains

    pure real(real64) function value(rank, i, j)
        !$acc routine seq
        integer, intent(in) :: rank, i, j

        value = (rank * 1000.0_real64 + i) * 1000 + j
    end function
end program
