! halo3d.f90: 26-neighbour periodic halo exchange of a 3-D block of reals in GPU memory, with `use mpi_f08`.
!
! build: mpifort cuda_runtime.f90 halo3d.f90 -o halo3d_f -L$CUDA_HOME/lib64 -lcudart      (or make examples)
! usage: mpirun -n RANKS [stridec run --] halo3d_f [--host] [n [radius [iterations]]]      (64 2 5)
! run: mpirun -n 4 stridec run -- build/examples/halo3d_f
!
! The Fortran counterpart of halo3d.c: subarray datatypes, Isend, Irecv and Waitall straight on device memory;
! every cell of the block is checked after each exchange. --host keeps the block in host memory.
program halo3d
    use mpi_f08
    use cuda_runtime
    use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
    implicit none
    integer, parameter :: directions = 27, middle = 14
    integer :: n = 64, radius = 2, iterations = 5, side, ranks, rank, iteration
    integer :: dims(3) = 0, coords(3), peer(directions)
    logical :: host = .false.
    integer(int64) :: wrong = 0, halo, interior
    integer(c_size_t) :: bytes
    real(real64), allocatable :: us(:)
    type(MPI_Comm) :: comm
    type(MPI_Datatype) :: send(directions), recv(directions)
    type(c_ptr) :: memory
    real(c_float), pointer, contiguous, asynchronous :: block(:, :, :)
    real(c_float), allocatable, target :: copy(:, :, :)

    call MPI_Init()
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call parse()
    side = n + 2 * radius
    bytes = 4_c_size_t * side * side * side
    call MPI_Dims_create(ranks, 3, dims)
    call MPI_Cart_create(MPI_COMM_WORLD, 3, dims, [.true., .true., .true.], .false., comm)
    call MPI_Cart_coords(comm, rank, 3, coords)
    call make_types()
    allocate(copy(side, side, side), us(iterations))
    if (host) then
        allocate(block(side, side, side))
    else
        call select_gpu()
        call cuda("cudaMalloc", cudaMalloc(memory, bytes))
        call c_f_pointer(memory, block, [side, side, side])
    end if

    do iteration = 1, iterations
        call fill()
        call MPI_Barrier(comm)
        us(iteration) = MPI_Wtime()
        call exchange()
        us(iteration) = (MPI_Wtime() - us(iteration)) * 1e6_real64
        call MPI_Allreduce(MPI_IN_PLACE, us(iteration), 1, MPI_DOUBLE_PRECISION, MPI_MAX, comm)
        call check()
    end do
    call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER8, MPI_SUM, comm)

    interior = int(n, int64)**3
    halo = int(side, int64)**3 - interior
    if (rank == 0) then
        print '(a,i0,a,i0,2(" x ",i0),a,i0,a,i0,3a)', "halo3d_f: ", ranks, " ranks as ", dims, ", each ", n, &
            "^3 reals with a halo of ", radius, " in ", trim(merge("host  ", "device", host)), " memory"
        if (wrong /= 0) then
            print '(a,i0,a)', "halo3d_f: FAILED: ", wrong, " wrong cells"
        else
            print '(a,i0,a,i0,a,i0,a)', "halo3d_f: checked after each of ", iterations, " exchanges: ", halo * ranks, &
                " halo cells right, ", interior * ranks, " interior cells untouched"
            print '(a,f0.1,a)', "halo3d_f: exchange: min ", minval(us), " us"
            print '(a)', "halo3d_f: verified"
        end if
    end if
    call free_all()
    call MPI_Finalize()
    if (wrong /= 0) error stop 1

contains

    subroutine parse()
        character(len=32) :: text
        integer :: i, given, number, status

        given = 0
        do i = 1, command_argument_count()
            call get_command_argument(i, text)
            if (text == "--host") then
                host = .true.
                cycle
            end if
            read (text, *, iostat=status) number
            given = given + 1
            if (status /= 0 .or. given > 3 .or. number < 1) call usage()
            if (given == 1) n = number
            if (given == 2) radius = number
            if (given == 3) iterations = number
        end do
        if (radius > n .or. n > 1000) call usage()
    end subroutine

    subroutine usage()
        if (rank == 0) write (error_unit, '(a)') &
            "usage: halo3d_f [--host] [n [radius [iterations]]]   (64 2 5; 0 < radius <= n <= 1000)"
        call MPI_Finalize()
        stop 2
    end subroutine

    subroutine cuda(what, status)
        character(len=*), intent(in) :: what
        integer(c_int), intent(in) :: status

        if (status == 0) return
        write (error_unit, '(3a,i0)') "halo3d_f: ", what, ": error ", status
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine

    subroutine select_gpu()
        type(MPI_Comm) :: node
        integer :: local
        integer(c_int) :: count

        call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
        call MPI_Comm_rank(node, local)
        call MPI_Comm_free(node)
        call cuda("cudaGetDeviceCount", cudaGetDeviceCount(count))
        call cuda("cudaSetDevice", cudaSetDevice(int(mod(local, int(count)), c_int)))
    end subroutine

    ! Direction k as a step of -1, 0 or 1 in each dimension; the opposite of k is directions + 1 - k.
    function step(k) result(d)
        integer, intent(in) :: k
        integer :: d(3)

        d = [mod(k - 1, 3), mod((k - 1) / 3, 3), (k - 1) / 9] - 1
    end function

    subroutine make_types()
        integer :: k, d(3), subsizes(3), from(3), to(3), sizes(3)

        sizes = side
        do k = 1, directions
            if (k == middle) cycle
            d = step(k)
            subsizes = merge(radius, n, d /= 0)
            from = merge(n, radius, d > 0)
            to = merge(0, merge(n + radius, radius, d > 0), d < 0)
            call MPI_Cart_rank(comm, coords + d, peer(k))
            call MPI_Type_create_subarray(3, sizes, subsizes, from, MPI_ORDER_FORTRAN, MPI_REAL, send(k))
            call MPI_Type_create_subarray(3, sizes, subsizes, to, MPI_ORDER_FORTRAN, MPI_REAL, recv(k))
            call MPI_Type_commit(send(k))
            call MPI_Type_commit(recv(k))
        end do
    end subroutine

    subroutine exchange()
        type(MPI_Request) :: request(2 * directions)
        integer :: k, pending

        pending = 0
        do k = 1, directions
            if (k == middle) cycle
            pending = pending + 1
            call MPI_Irecv(block, 1, recv(k), peer(k), directions + 1 - k, comm, request(pending))
        end do
        do k = 1, directions
            if (k == middle) cycle
            pending = pending + 1
            call MPI_Isend(block, 1, send(k), peer(k), k, comm, request(pending))
        end do
        call MPI_Waitall(pending, request, MPI_STATUSES_IGNORE)
    end subroutine

    ! The global position, wrapped around, of local index i (halo included) in dimension d.
    pure integer(int64) function global(d, i)
        integer, intent(in) :: d, i

        global = modulo(int(coords(d), int64) * n + i - 1 - radius, int(n, int64) * dims(d))
    end function

    ! What a cell holds in this iteration: below 2^24, exact in a real.
    pure real(c_float) function value(i, j, k)
        integer, intent(in) :: i, j, k

        value = real(modulo((global(1, i) * 131 + 7) * (global(2, j) * 8191 + 3) + global(3, k) * 524287 &
            + iteration * 7919, 16777213_int64), c_float)
    end function

    pure logical function inside(i, j, k)
        integer, intent(in) :: i, j, k

        inside = minval([i, j, k]) > radius .and. maxval([i, j, k]) <= radius + n
    end function

    subroutine fill()
        integer :: i, j, k

        do k = 1, side
            do j = 1, side
                do i = 1, side
                    copy(i, j, k) = -1
                    if (inside(i, j, k)) copy(i, j, k) = value(i, j, k)
                end do
            end do
        end do
        if (host) then
            block = copy
        else
            call cuda("cudaMemcpy", cudaMemcpy(memory, c_loc(copy), bytes, host_to_device))
            call cuda("cudaDeviceSynchronize", cudaDeviceSynchronize())   ! MPI may look from another stream
        end if
    end subroutine

    subroutine check()
        integer :: i, j, k

        if (host) then
            copy = block
        else
            call cuda("cudaMemcpy", cudaMemcpy(c_loc(copy), memory, bytes, device_to_host))
        end if
        do k = 1, side
            do j = 1, side
                do i = 1, side
                    if (copy(i, j, k) == value(i, j, k)) cycle
                    if (wrong == 0) write (error_unit, '(a,i0,a,i0,a,3(1x,i0),a,f0.0,a,f0.0)') "halo3d_f: rank ", &
                        rank, ", exchange ", iteration, ": cell", i, j, k, " holds ", copy(i, j, k), &
                        ", should hold ", value(i, j, k)
                    wrong = wrong + 1
                end do
            end do
        end do
    end subroutine

    subroutine free_all()
        integer :: k

        do k = 1, directions
            if (k == middle) cycle
            call MPI_Type_free(send(k))
            call MPI_Type_free(recv(k))
        end do
        if (host) then
            deallocate(block)
        else
            call cuda("cudaFree", cudaFree(memory))
        end if
        call MPI_Comm_free(comm)
    end subroutine
end program
