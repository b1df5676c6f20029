! pencils.f90: halo exchange between pencils, as 2DECOMP and codes on it (uDALES, XCompact3D) have it, in GPU memory.
!
! build: mpifort cuda_runtime.f90 pencils.f90 -o pencils -L$CUDA_HOME/lib64 -lcudart      (or make examples)
! usage: mpirun -n RANKS [stridec run --] pencils [--host] [n [halo [iterations]]]      (64 2 20; 1 to 3 values of halo)
! run: mpirun -n 4 stridec run -- build/examples/pencils 19 2 3
!
! A field of n^3 values of real(8) is cut in y and z, so that each rank has a pencil along x with halo values on every
! side of y and z. Each exchange sends the outermost planes of both: in y MPI_TYPE_VECTOR with blocks of
! halo * (n + 2 halo) values, in z of one piece. Then the same along x, which is periodic and whole on the rank: the
! ghost values are sent to the rank itself in blocks of 1 to 3 values, the shortest there are. MPI_ISSEND and MPI_IRECV
! straight on device memory; each value of the block is compared after each exchange, all of its bytes, corners
! included. --host keeps the field in host memory.
program pencils
    use mpi_f08
    use cuda_runtime
    use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
    implicit none
    integer :: n = 64, halo = 2, iterations = 20, ranks, rank, iteration, side(3), inner(3)
    integer :: dims(2) = 0, coords(2), low(3), high(3)
    logical :: host = .false.
    integer(int64) :: wrong = 0
    integer(c_size_t) :: bytes
    real(real64), allocatable :: us(:)
    type(MPI_Comm) :: comm
    type(MPI_Datatype) :: face(3)
    type(c_ptr) :: memory
    real(c_double), pointer, contiguous, asynchronous :: field(:, :, :)
    real(c_double), allocatable, target :: copy(:, :, :)

    call MPI_Init()
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call parse()
    call decompose()
    call make_types()
    allocate(copy(side(1), side(2), side(3)), us(iterations))
    bytes = 8_c_size_t * size(copy, kind=c_size_t)
    if (host) then
        allocate(field(side(1), side(2), side(3)))
    else
        call select_gpu()
        call cuda("cudaMalloc", cudaMalloc(memory, bytes))
        call c_f_pointer(memory, field, side)
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

    if (rank == 0) then
        print '(a,i0,a,i0," x ",i0,a,2(i0," x "),i0,a,i0,3a)', "pencils: ", ranks, " ranks as ", dims, &
            ", the first one's pencil ", inner, " with a halo of ", halo, " in ", &
            trim(merge("host  ", "device", host)), " memory"
        if (wrong /= 0) then
            print '(a,i0,a)', "pencils: FAILED: ", wrong, " wrong values"
        else
            print '(a,f0.1,a,i0,a)', "pencils: exchange: median ", median(us), " us of ", iterations, ", each verified"
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
            if (given == 2) halo = number
            if (given == 3) iterations = number
        end do
        if (halo > 3 .or. n > 1000) call usage()
    end subroutine

    subroutine usage()
        if (rank == 0) write (error_unit, '(a)') &
            "usage: pencils [--host] [n [halo [iterations]]]   (64 2 20; n up to 1000, halo 1 to 3)"
        call MPI_Finalize()
        stop 2
    end subroutine

    subroutine cuda(what, status)
        character(len=*), intent(in) :: what
        integer(c_int), intent(in) :: status

        if (status == 0) return
        write (error_unit, '(3a,i0)') "pencils: ", what, ": error ", status
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

    ! x is whole; y and z are cut as evenly as they can be, the first ranks having one more.
    subroutine decompose()
        integer :: d, share, rest

        call MPI_Dims_create(ranks, 2, dims)
        call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .true.], .false., comm)
        call MPI_Cart_coords(comm, rank, 2, coords)
        inner(1) = n
        low(1) = 0
        do d = 1, 2
            share = n / dims(d)
            rest = mod(n, dims(d))
            inner(d + 1) = share + merge(1, 0, coords(d) < rest)
            low(d + 1) = share * coords(d) + min(coords(d), rest)
            if (share < halo) call usage()
        end do
        if (n < halo) call usage()
        high = low + inner
        side = inner + 2 * halo
    end subroutine

    ! The halo planes of each dimension, over all of the other two, so that corners travel in two or three steps.
    subroutine make_types()
        integer :: d

        call MPI_Type_vector(side(2) * side(3), halo, side(1), MPI_DOUBLE_PRECISION, face(1))
        call MPI_Type_vector(side(3), halo * side(1), side(1) * side(2), MPI_DOUBLE_PRECISION, face(2))
        call MPI_Type_vector(1, halo * side(1) * side(2), halo * side(1) * side(2), MPI_DOUBLE_PRECISION, face(3))
        do d = 1, 3
            call MPI_Type_commit(face(d))
        end do
    end subroutine

    subroutine exchange()
        integer :: before, after, d

        call MPI_Cart_shift(comm, 0, 1, before, after)
        call swap(face(2), before, after, field(1, 1, 1), field(1, side(2) - halo + 1, 1), field(1, halo + 1, 1), &
            field(1, side(2) - 2 * halo + 1, 1))
        call MPI_Cart_shift(comm, 1, 1, before, after)
        call swap(face(3), before, after, field(1, 1, 1), field(1, 1, side(3) - halo + 1), field(1, 1, halo + 1), &
            field(1, 1, side(3) - 2 * halo + 1))
        d = rank
        call swap(face(1), d, d, field(1, 1, 1), field(side(1) - halo + 1, 1, 1), field(halo + 1, 1, 1), &
            field(side(1) - 2 * halo + 1, 1, 1))
    end subroutine

    ! Both ways in one dimension: ghosts at the low and high end, and the values beside them that the neighbours want.
    ! The arguments are only places in memory: nothing here reads them, for they may be a GPU's.
    subroutine swap(type, before, after, ghost_low, ghost_high, edge_low, edge_high)
        type(MPI_Datatype), intent(in) :: type
        integer, intent(in) :: before, after
        real(c_double), asynchronous, target :: ghost_low, ghost_high, edge_low, edge_high
        type(MPI_Request) :: request(4)

        call MPI_Irecv(ghost_low, 1, type, before, 1, comm, request(1))
        call MPI_Irecv(ghost_high, 1, type, after, 2, comm, request(2))
        call MPI_Issend(edge_high, 1, type, after, 1, comm, request(3))
        call MPI_Issend(edge_low, 1, type, before, 2, comm, request(4))
        call MPI_Waitall(4, request, MPI_STATUSES_IGNORE)
    end subroutine

    ! What belongs at a local position, by its place in the whole field, wrapped around; exact, different everywhere.
    pure real(c_double) function value(i, j, k)
        integer, intent(in) :: i, j, k
        integer(int64) :: at(3)

        at = modulo(int([i, j, k], int64) - 1 - halo + low, int(n, int64))
        value = real(((at(3) * n + at(2)) * n + at(1)) * 1024 + iteration, c_double) / 3
    end function

    pure logical function inside(i, j, k)
        integer, intent(in) :: i, j, k

        inside = all([i, j, k] > halo .and. [i, j, k] <= halo + inner)
    end function

    subroutine fill()
        integer :: i, j, k

        do k = 1, side(3)
            do j = 1, side(2)
                do i = 1, side(1)
                    copy(i, j, k) = -1
                    if (inside(i, j, k)) copy(i, j, k) = value(i, j, k)
                end do
            end do
        end do
        if (host) then
            field = copy
        else
            call cuda("cudaMemcpy", cudaMemcpy(memory, c_loc(copy), bytes, host_to_device))
            call cuda("cudaDeviceSynchronize", cudaDeviceSynchronize())   ! MPI may look from another stream
        end if
    end subroutine

    subroutine check()
        integer :: i, j, k

        if (host) then
            copy = field
        else
            call cuda("cudaMemcpy", cudaMemcpy(c_loc(copy), memory, bytes, device_to_host))
        end if
        do k = 1, side(3)
            do j = 1, side(2)
                do i = 1, side(1)
                    if (transfer(copy(i, j, k), 0_int64) == transfer(value(i, j, k), 0_int64)) cycle
                    if (wrong == 0) write (error_unit, '(2(a,i0),a,3(1x,i0),2(a,f0.2))') "pencils: rank ", rank, &
                        ", exchange ", iteration, ": value", i, j, k, " is ", copy(i, j, k), &
                        ", should be ", value(i, j, k)
                    wrong = wrong + 1
                end do
            end do
        end do
    end subroutine

    pure real(real64) function median(times)
        real(real64), intent(in) :: times(:)
        real(real64) :: sorted(size(times)), least
        integer :: i, at

        sorted = times
        do i = 1, size(sorted)
            at = i - 1 + minloc(sorted(i:), 1)
            least = sorted(at)
            sorted(at) = sorted(i)
            sorted(i) = least
        end do
        median = sorted((size(sorted) + 1) / 2)
    end function

    subroutine free_all()
        integer :: d

        do d = 1, 3
            call MPI_Type_free(face(d))
        end do
        if (host) then
            deallocate(field)
        else
            call cuda("cudaFree", cudaFree(memory))
        end if
        call MPI_Comm_free(comm)
    end subroutine
end program
