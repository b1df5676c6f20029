@ if plan.target == "hip" then
@ include "templates/hip.cuh"

@ end
/* The argument of every kernel: struct stridec_launch of gen/gen.h. */
struct stridec_launch {
    unsigned long long packed;  /* address of packed byte `begin` */
    unsigned long long user;    /* address of the origin of element 0 plus the root's offset */
    long long extent;           /* bytes from one element to the next; read only where wrap is 1 */
    long long begin, end;       /* the range of the packed stream */
    long long wrap;             /* 1: elements lie `extent` apart; 0: the outermost stride goes on */
    unsigned long long program; /* what the kernel reads of its type */
    unsigned long long done;    /* address of a word that becomes `ticket` once all is moved; or 0 */
    unsigned long long ticket;
    unsigned long long ended;   /* with `done`: address of a word that counts the blocks; 0 between launches */
    unsigned long long marks;   /* marked.cuh's: of each chunk one word, that becomes `mark` once it is packed, */
    unsigned long long mark;
    long long chunk;            /* bytes, and */
    long long patience;         /* clocks */
@ if numbers > 0 then
    unsigned long long number[@(numbers)];
@ end
};

/* The end of every kernel: the host, which waits for the ticket, finds every word moved. */
template <class LAUNCH> static __device__ __forceinline__ void stridec_done(const LAUNCH &a)
{
    if (!a.done) return;
    __syncthreads();
    if (threadIdx.x) return;
    if (gridDim.x > 1) {
        __threadfence();
        if (atomicAdd((unsigned int *)a.ended, 1u) != gridDim.x - 1) return;
        *(volatile unsigned int *)a.ended = 0;
    }
    __threadfence_system();
    *(volatile unsigned int *)a.done = (unsigned int)a.ticket;
}
