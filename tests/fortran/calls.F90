! calls.F90: every call that stridec takes, from Fortran, with derived types on device memory: each must bring the right
! bytes, and each must have been taken: the simulated GPU counts the kernels and copies of this process. Built three
! times, with -DUSE_F08 (use mpi_f08), -DUSE_MPI (use mpi) and -DUSE_MPIF_H (mpif.h). Two ranks; the host may touch the
! simulated memory (SIMGPU_OPEN), so that a call that slips past stridec is a failed check and no crash.
module device
    use cuda_runtime   ! examples/cuda_runtime.f90
    implicit none
    type, bind(c) :: counts   ! tests/sim/simgpu.h
        integer(c_int64_t) :: launches, copies, copies_2d, h2d, d2h, d2d, syncs, allocs, bytes, modules, streams, events
        integer(c_int64_t) :: peak, graphs, early, arguments_set, questions, opens, calls, failed
    end type

    interface
        subroutine simgpu_counts(c) bind(c, name="simgpu_counts")
            import :: counts
            type(counts), intent(out) :: c
        end subroutine
    end interface
end module

program calls
    use device
#if defined(USE_F08)
    use mpi_f08
#define DATATYPE type(MPI_Datatype)
#define REQUEST type(MPI_Request)
#define MESSAGE type(MPI_Message)
#define STATUS_OF(s) type(MPI_Status) :: s
#define STATUSES_OF(s) type(MPI_Status) :: s(2)
#define INTERFACE "mpi_f08"
#else
#if defined(USE_MPI)
    use mpi
#define INTERFACE "use mpi"
#else
#define INTERFACE "mpif.h"
#endif
#define DATATYPE integer
#define REQUEST integer
#define MESSAGE integer
#define STATUS_OF(s) integer :: s(MPI_STATUS_SIZE)
#define STATUSES_OF(s) integer :: s(MPI_STATUS_SIZE, 2)
#endif
    implicit none
#if defined(USE_MPIF_H)
    include 'mpif.h'
#endif
    ! What is tested.
    character(20), parameter :: sends(*) = [character(20) :: "Send", "Ssend", "Rsend", "Bsend", "Isend", "Issend", &
        "Irsend", "Ibsend", "Isend+Waitall", "Pack"]
    character(20), parameter :: receives(*) = [character(20) :: "Recv", "Irecv+Wait", "Irecv+Test", "Irecv+Waitall", &
        "Irecv+Testall", "Irecv+Waitany", "Irecv+Testany", "Irecv+Waitsome", "Irecv+Testsome", "Mprobe+Mrecv", &
        "Mprobe+Imrecv", "Unpack"]
    character(20), parameter :: exchanges(*) = [character(20) :: "Sendrecv", "Sendrecv_replace"]
    character(20), parameter :: bottoms(*) = [character(20) :: "Send", "Recv", "Isend", "Irecv", "Sendrecv"]
    character(20), parameter :: collectives(*) = [character(20) :: "Bcast", "Gather", "Scatter", "Allgather", &
        "Allgather_in_place", "Alltoall", "Alltoall_in_place", "Ibcast", "Iallgather", "Gather_in_place"]

    integer, parameter :: n = 16
    integer, parameter :: on_vector = 1, on_subarray = 2, on_element = 3, on_absolute = 4, on_section = 5
    character(10), parameter :: pattern_name(5) = [character(10) :: "vector", "subarray", "element", "MPI_BOTTOM", "section"]
    integer :: rank, ranks, other, ierr, i, p, role, passed = 0, failed = 0
    integer(c_int64_t) :: work_before
    DATATYPE :: types(4), absolute_b, whole
    type(c_ptr) :: a_memory, b_memory
    real(c_float), pointer, contiguous, asynchronous :: a(:, :), b(:, :), a_flat(:), b_flat(:)
    integer, parameter :: element = 2 * n + 2   ! (2, 3)
    real(c_float), target :: host(n, n)
    real(c_float), target :: packed(n * n)
    character, target, asynchronous :: attached(65536)

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
    if (ranks /= 2) call MPI_Abort(MPI_COMM_WORLD, 2, ierr)
    other = 1 - rank
    call MPI_Buffer_attach(attached, 65536, ierr)
    call allocate_field(a_memory, a)
    call allocate_field(b_memory, b)
    call c_f_pointer(a_memory, a_flat, [n * n])
    call c_f_pointer(b_memory, b_flat, [n * n])
    call make_types()

    do p = on_vector, on_element
        do role = 0, 1
            do i = 1, size(sends)
                call one_message(sends(i), p, .true.)
            end do
            do i = 1, size(receives)
                call one_message(receives(i), p, .false.)
            end do
        end do
        do i = 1, size(exchanges)
            call fill()
            call start()
            call exchange(exchanges(i))
            call verify(exchanges(i), p, .true., .true., exchanges(i) == "Sendrecv_replace")
        end do
    end do
    do i = 1, size(bottoms)
        do role = 0, 1
            call one_message(trim(bottoms(i))//"_bottom", on_absolute, &
                             bottoms(i) == "Send" .or. bottoms(i) == "Isend")
        end do
    end do
#if defined(USE_F08)
    if (MPI_SUBARRAYS_SUPPORTED) then
        do role = 0, 1
            call one_message("Send_section", on_section, .true.)
            call one_message("Recv_section", on_section, .false.)
        end do
    end if
#endif
    do i = 1, size(collectives)
        call fill()
        call start()
        call collective(collectives(i))
        call verify_collective(collectives(i))
    end do

    call MPI_Allreduce(MPI_IN_PLACE, failed, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (rank == 0) print '(a,i0,a,i0,a)', "# ", passed, " passed, ", failed, " failed"
    call MPI_Finalize(ierr)
    if (failed > 0) stop 1

contains

    subroutine allocate_field(memory, field)
        type(c_ptr), intent(out) :: memory
        real(c_float), pointer, contiguous, intent(out) :: field(:, :)

        if (cudaMalloc(memory, int(4 * n * n, c_size_t)) /= 0) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
        call c_f_pointer(memory, field, [n, n])
    end subroutine

    ! From `element` the vector begins in the middle of the field; `absolute` types have addresses for displacements.
    subroutine make_types()
        integer :: k

        call MPI_Type_vector(6, 3, n, MPI_REAL, types(on_vector), ierr)
        call MPI_Type_create_subarray(2, [n, n], [3, 5], [2, 1], MPI_ORDER_FORTRAN, MPI_REAL, types(on_subarray), ierr)
        call MPI_Type_vector(6, 3, n, MPI_REAL, types(on_element), ierr)
        call absolute(a, types(on_absolute))
        call absolute(b, absolute_b)
        do k = 1, 4
            call MPI_Type_commit(types(k), ierr)
        end do
        call MPI_Type_commit(absolute_b, ierr)
        ! For collectives: a vector whose next element begins in the field's second half.
        call MPI_Type_create_resized(types(on_vector), 0_MPI_ADDRESS_KIND, int(4 * n * n / 2, MPI_ADDRESS_KIND), &
                                     whole, ierr)
        call MPI_Type_commit(whole, ierr)
    end subroutine

    subroutine absolute(field, datatype)
        real(c_float), pointer, contiguous, asynchronous, intent(in) :: field(:, :)
        DATATYPE, intent(out) :: datatype
        integer(MPI_ADDRESS_KIND) :: at(3)

        call MPI_Get_address(field(2, 2), at(1), ierr)
        call MPI_Get_address(field(4, 5), at(2), ierr)
        call MPI_Get_address(field(9, 11), at(3), ierr)
        call MPI_Type_create_hindexed(3, [3, 2, 5], at, MPI_REAL, datatype, ierr)
    end subroutine

    pure logical function touched(pattern, i, j)
        integer, intent(in) :: pattern, i, j

        select case (pattern)
        case (on_vector)
            touched = i <= 3 .and. j <= 6
        case (on_subarray)
            touched = i >= 3 .and. i <= 5 .and. j >= 2 .and. j <= 6
        case (on_element)
            touched = i >= 2 .and. i <= 4 .and. j >= 3 .and. j <= 8
        case (on_absolute)
            touched = (j == 2 .and. i >= 2 .and. i <= 4) .or. (j == 5 .and. i >= 4 .and. i <= 5) &
                      .or. (j == 11 .and. i >= 9 .and. i <= 13)
        case default
            touched = i >= 2 .and. i <= 4 .and. j >= 3 .and. j <= 7
        end select
    end function

    pure real(c_float) function value(of, i, j)
        integer, intent(in) :: of, i, j

        value = real(1000 * (of + 1) + n * j + i, c_float)
    end function

    subroutine copy_in(memory)
        type(c_ptr), intent(in) :: memory

        if (cudaMemcpy(memory, c_loc(host), int(4 * n * n, c_size_t), host_to_device) /= 0) &
            call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
    end subroutine

    subroutine copy_out(memory)
        type(c_ptr), intent(in) :: memory

        if (cudaMemcpy(c_loc(host), memory, int(4 * n * n, c_size_t), device_to_host) /= 0) &
            call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
    end subroutine

    subroutine fill()
        integer :: i, j

        do j = 1, n
            do i = 1, n
                host(i, j) = value(rank, i, j)
            end do
        end do
        call copy_in(a_memory)
        host = -1
        call copy_in(b_memory)
    end subroutine

    integer(c_int64_t) function work()
        type(counts) :: c

        call simgpu_counts(c)
        work = c%launches + c%copies
    end function

    subroutine start()
        work_before = work()
    end subroutine

    ! One message from rank `role`; the tested call is the sender's or the receiver's, the other side's a plain one.
    subroutine one_message(name, pattern, sending)
        character(*), intent(in) :: name
        integer, intent(in) :: pattern
        logical, intent(in) :: sending
        REQUEST :: request
        logical :: plain_absolute

        call fill()
        plain_absolute = pattern == on_absolute
        if (name == "Sendrecv_bottom") then
            call start()
            call MPI_Sendrecv(MPI_BOTTOM, 1, types(on_absolute), other, 7, MPI_BOTTOM, 1, absolute_b, other, 7, &
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
            call verify(name, pattern, .true., .true., .false.)
            return
        end if
        if (rank == role) then
            call MPI_Barrier(MPI_COMM_WORLD, ierr)
            call start()
            if (.not. sending) then
                if (plain_absolute) then
                    call send_bottom("Send_bottom")
                else
                    call send_plain(pattern)
                end if
            else if (plain_absolute) then
                call send_bottom(name)
            else if (pattern == on_section) then
                call send_section()
            else if (pattern == on_element) then
                call send(name, a_flat(element:), types(pattern))
            else
                call send(name, a, types(pattern))
            end if
            call verify(name, pattern, sending, .false., .false.)
        else
            if (sending) then   ! posted before the barrier: a ready send needs it
                if (plain_absolute) then
                    call MPI_Irecv(MPI_BOTTOM, 1, absolute_b, other, 7, MPI_COMM_WORLD, request, ierr)
                else
                    call post_plain(pattern, request)
                end if
                call MPI_Barrier(MPI_COMM_WORLD, ierr)
                call start()
                call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
            else
                call MPI_Barrier(MPI_COMM_WORLD, ierr)
                call start()
                if (plain_absolute) then
                    call receive_bottom(name)
                else if (pattern == on_section) then
                    call receive_section()
                else if (pattern == on_element) then
                    call receive(name, b_flat(element:), types(pattern))
                else
                    call receive(name, b, types(pattern))
                end if
            end if
            call verify(name, pattern, .not. sending, .true., .false.)
        end if
    end subroutine

    subroutine send_plain(pattern)
        integer, intent(in) :: pattern
        DATATYPE :: section

        if (pattern == on_section) then
            call MPI_Type_vector(5, 3, n, MPI_REAL, section, ierr)
            call MPI_Type_commit(section, ierr)
            call MPI_Send(a(2, 3), 1, section, other, 7, MPI_COMM_WORLD, ierr)
            call MPI_Type_free(section, ierr)
        else if (pattern == on_element) then
            call MPI_Send(a(2, 3), 1, types(pattern), other, 7, MPI_COMM_WORLD, ierr)
        else
            call MPI_Send(a, 1, types(pattern), other, 7, MPI_COMM_WORLD, ierr)
        end if
    end subroutine

    subroutine post_plain(pattern, request)
        integer, intent(in) :: pattern
        REQUEST, intent(out) :: request
        DATATYPE :: section

        if (pattern == on_section) then
            call MPI_Type_vector(5, 3, n, MPI_REAL, section, ierr)
            call MPI_Type_commit(section, ierr)
            call MPI_Irecv(b(2, 3), 1, section, other, 7, MPI_COMM_WORLD, request, ierr)
            call MPI_Type_free(section, ierr)
        else if (pattern == on_element) then
            call MPI_Irecv(b(2, 3), 1, types(pattern), other, 7, MPI_COMM_WORLD, request, ierr)
        else
            call MPI_Irecv(b, 1, types(pattern), other, 7, MPI_COMM_WORLD, request, ierr)
        end if
    end subroutine

    subroutine send(name, buf, datatype)
        character(*), intent(in) :: name
        real(c_float), asynchronous :: buf(*)
        DATATYPE, intent(in) :: datatype
        REQUEST :: request(2)
        STATUSES_OF(statuses)
        integer :: position

        request = MPI_REQUEST_NULL
        select case (name)
        case ("Send")
            call MPI_Send(buf, 1, datatype, other, 7, MPI_COMM_WORLD, ierr)
        case ("Ssend")
            call MPI_Ssend(buf, 1, datatype, other, 7, MPI_COMM_WORLD, ierr)
        case ("Rsend")
            call MPI_Rsend(buf, 1, datatype, other, 7, MPI_COMM_WORLD, ierr)
        case ("Bsend")
            call MPI_Bsend(buf, 1, datatype, other, 7, MPI_COMM_WORLD, ierr)
        case ("Isend", "Isend+Waitall")
            call MPI_Isend(buf, 1, datatype, other, 7, MPI_COMM_WORLD, request(1), ierr)
        case ("Issend")
            call MPI_Issend(buf, 1, datatype, other, 7, MPI_COMM_WORLD, request(1), ierr)
        case ("Irsend")
            call MPI_Irsend(buf, 1, datatype, other, 7, MPI_COMM_WORLD, request(1), ierr)
        case ("Ibsend")
            call MPI_Ibsend(buf, 1, datatype, other, 7, MPI_COMM_WORLD, request(1), ierr)
        case ("Pack")
            position = 0
            call MPI_Pack(buf, 1, datatype, packed, 4 * n * n, position, MPI_COMM_WORLD, ierr)
            call MPI_Send(packed, position, MPI_PACKED, other, 7, MPI_COMM_WORLD, ierr)
        end select
        if (name == "Isend+Waitall") then
            call MPI_Waitall(2, request, statuses, ierr)
        else
            call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierr)
        end if
    end subroutine

    subroutine receive(name, buf, datatype)
        character(*), intent(in) :: name
        real(c_float), asynchronous :: buf(*)
        DATATYPE, intent(in) :: datatype
        REQUEST :: request(2)
        MESSAGE :: message
        STATUS_OF(status)
        STATUSES_OF(statuses)
        integer :: position, count, index, indices(2)
        logical :: flag

        request = MPI_REQUEST_NULL
        flag = .false.
        count = 0
        if (name(1:min(6, len(name))) == "Irecv+") &
            call MPI_Irecv(buf, 1, datatype, other, 7, MPI_COMM_WORLD, request(1), ierr)
        select case (name)
        case ("Recv")
            call MPI_Recv(buf, 1, datatype, other, 7, MPI_COMM_WORLD, status, ierr)
        case ("Irecv+Wait")
            call MPI_Wait(request(1), status, ierr)
        case ("Irecv+Test")
            do while (.not. flag)
                call MPI_Test(request(1), flag, MPI_STATUS_IGNORE, ierr)
            end do
        case ("Irecv+Waitall")
            call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierr)
        case ("Irecv+Testall")
            do while (.not. flag)
                call MPI_Testall(2, request, flag, statuses, ierr)
            end do
        case ("Irecv+Waitany")
            call MPI_Waitany(2, request, index, MPI_STATUS_IGNORE, ierr)
        case ("Irecv+Testany")
            do while (.not. flag)
                call MPI_Testany(2, request, index, flag, status, ierr)
            end do
        case ("Irecv+Waitsome")
            call MPI_Waitsome(2, request, count, indices, statuses, ierr)
        case ("Irecv+Testsome")
            do while (count == 0)
                call MPI_Testsome(2, request, count, indices, MPI_STATUSES_IGNORE, ierr)
            end do
        case ("Mprobe+Mrecv")
            call MPI_Mprobe(other, 7, MPI_COMM_WORLD, message, status, ierr)
            call MPI_Mrecv(buf, 1, datatype, message, status, ierr)
        case ("Mprobe+Imrecv")
            call MPI_Mprobe(other, 7, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE, ierr)
            call MPI_Imrecv(buf, 1, datatype, message, request(1), ierr)
            call MPI_Wait(request(1), status, ierr)
        case ("Unpack")
            call MPI_Recv(packed, 4 * n * n, MPI_PACKED, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
            position = 0
            call MPI_Unpack(packed, 4 * n * n, position, buf, 1, datatype, MPI_COMM_WORLD, ierr)
        end select
    end subroutine

    subroutine exchange(name)
        character(*), intent(in) :: name

        if (name == "Sendrecv" .and. p == on_element) then
            call MPI_Sendrecv(a(2, 3), 1, types(p), other, 7, b(2, 3), 1, types(p), other, 7, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE, ierr)
        else if (name == "Sendrecv") then
            call MPI_Sendrecv(a, 1, types(p), other, 7, b, 1, types(p), other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        else if (p == on_element) then
            call MPI_Sendrecv_replace(a(2, 3), 1, types(p), other, 7, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        else
            call MPI_Sendrecv_replace(a, 1, types(p), other, 7, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        end if
    end subroutine

    subroutine send_bottom(name)
        character(*), intent(in) :: name
        REQUEST :: request

        if (name == "Send_bottom") then
            call MPI_Send(MPI_BOTTOM, 1, types(on_absolute), other, 7, MPI_COMM_WORLD, ierr)
        else
            call MPI_Isend(MPI_BOTTOM, 1, types(on_absolute), other, 7, MPI_COMM_WORLD, request, ierr)
            call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
        end if
    end subroutine

    subroutine receive_bottom(name)
        character(*), intent(in) :: name
        REQUEST :: request

        if (name == "Recv_bottom") then
            call MPI_Recv(MPI_BOTTOM, 1, absolute_b, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
        else
            call MPI_Irecv(MPI_BOTTOM, 1, absolute_b, other, 7, MPI_COMM_WORLD, request, ierr)
            call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
        end if
    end subroutine

    ! A section given as it is: its descriptor becomes a datatype in the MPI's binding. Elsewhere the compiler would
    ! copy it on the host, which a program cannot do with device memory.
    subroutine send_section()
#if defined(USE_F08)
        call MPI_Send(a(2:4, 3:7), 15, MPI_REAL, other, 7, MPI_COMM_WORLD, ierr)
#endif
    end subroutine

    subroutine receive_section()
#if defined(USE_F08)
        call MPI_Recv(b(2:4, 3:7), 15, MPI_REAL, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
#endif
    end subroutine

    subroutine collective(name)
        character(*), intent(in) :: name
        REQUEST :: request

        request = MPI_REQUEST_NULL
        select case (name)
        case ("Bcast")
            call MPI_Bcast(a, 2, whole, 0, MPI_COMM_WORLD, ierr)
        case ("Ibcast")
            call MPI_Ibcast(a, 2, whole, 0, MPI_COMM_WORLD, request, ierr)
        case ("Gather")
            call MPI_Gather(a, 1, whole, b, 1, whole, 0, MPI_COMM_WORLD, ierr)
        case ("Gather_in_place")
            if (rank == 0) then
                call MPI_Gather(MPI_IN_PLACE, 1, whole, a, 1, whole, 0, MPI_COMM_WORLD, ierr)
            else
                call MPI_Gather(a(1, n / 2 + 1), 1, whole, a, 1, whole, 0, MPI_COMM_WORLD, ierr)
            end if
        case ("Scatter")
            call MPI_Scatter(a, 1, whole, b, 1, whole, 0, MPI_COMM_WORLD, ierr)
        case ("Allgather")
            call MPI_Allgather(a, 1, whole, b, 1, whole, MPI_COMM_WORLD, ierr)
        case ("Iallgather")
            call MPI_Iallgather(a, 1, whole, b, 1, whole, MPI_COMM_WORLD, request, ierr)
        case ("Allgather_in_place")
            call MPI_Allgather(MPI_IN_PLACE, 1, whole, a, 1, whole, MPI_COMM_WORLD, ierr)
        case ("Alltoall")
            call MPI_Alltoall(a, 1, whole, b, 1, whole, MPI_COMM_WORLD, ierr)
        case ("Alltoall_in_place")
            call MPI_Alltoall(MPI_IN_PLACE, 1, whole, a, 1, whole, MPI_COMM_WORLD, ierr)
        end select
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    end subroutine

    ! What half h (0 or 1) of the result holds: the rank whose field it came from, and the half there; -1: nothing came.
    subroutine origin(name, h, from, half)
        character(*), intent(in) :: name
        integer, intent(in) :: h
        integer, intent(out) :: from, half

        from = h
        half = 0
        select case (name)
        case ("Bcast", "Ibcast")
            from = 0
            half = h
        case ("Gather")
            if (rank /= 0) from = -1
        case ("Gather_in_place")
            if (rank /= 0) from = rank
            half = h
        case ("Scatter")
            from = 0
            half = rank
            if (h == 1) from = -1
        case ("Allgather_in_place")
            half = h
        case ("Alltoall", "Alltoall_in_place")
            half = rank
        end select
    end subroutine

    subroutine verify_collective(name)
        character(*), intent(in) :: name
        logical :: same, in_a
        integer :: i, j, h, from, half
        real(c_float) :: want
        integer(c_int64_t) :: moved

        moved = work() - work_before
        in_a = name == "Bcast" .or. name == "Ibcast" .or. index(name, "_in_place") > 0
        call copy_out(merge(a_memory, b_memory, in_a))
        same = .true.
        do j = 1, n
            h = (j - 1) / (n / 2)
            call origin(name, h, from, half)
            do i = 1, n
                want = merge(value(rank, i, j), -1.0_c_float, in_a)
                if (from >= 0 .and. i <= 3 .and. j - h * n / 2 <= 6) want = value(from, i, j + (half - h) * n / 2)
                same = same .and. host(i, j) == want
            end do
        end do
        call tell(name, "vector", same, moved > 0)
    end subroutine

    ! `acted`: this rank made the tested call. `received`: this rank's field b (or a) has the message.
    subroutine verify(name, pattern, acted, received, in_a)
        character(*), intent(in) :: name
        integer, intent(in) :: pattern
        logical, intent(in) :: acted, received, in_a
        integer :: i, j
        logical :: same
        real(c_float) :: want
        integer(c_int64_t) :: moved

        moved = work() - work_before
        same = .true.
        if (in_a) then
            call copy_out(a_memory)
        else
            call copy_out(b_memory)
        end if
        do j = 1, n
            do i = 1, n
                want = -1
                if (in_a) want = value(rank, i, j)
                if (received .and. touched(pattern, i, j)) want = value(other, i, j)
                same = same .and. host(i, j) == want
            end do
        end do
        call tell(name, pattern_name(pattern), same, moved > 0 .or. .not. acted)
    end subroutine

    ! A barrier: both ranks have an opinion, rank 0 prints.
    subroutine tell(name, pattern, same, taken)
        character(*), intent(in) :: name, pattern
        logical, intent(in) :: same, taken
        integer :: bad(2)

        bad = [merge(0, 1, same), merge(0, 1, taken)]
        call MPI_Allreduce(MPI_IN_PLACE, bad, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
        if (sum(bad) == 0) then
            passed = passed + 1
        else if (rank == 0) then
            failed = failed + 1
        end if
        if (rank /= 0) return
        if (bad(1) > 0) print '(5a)', "not ok ", INTERFACE, " MPI_", trim(name), " on "//trim(pattern)//": wrong bytes"
        if (bad(2) > 0) print '(5a)', "not ok ", INTERFACE, " MPI_", trim(name), " on "//trim(pattern)//": slipped past"
    end subroutine
end program
