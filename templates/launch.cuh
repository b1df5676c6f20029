/* The argument of every kernel: struct stridec_launch of gen/gen.h. */
struct stridec_launch {
    unsigned long long packed;  /* address of packed byte `begin` */
    unsigned long long user;    /* address of the origin of element 0 plus the root's offset */
    long long extent;           /* bytes from one element to the next; read only where wrap is 1 */
    long long begin, end;       /* the range of the packed stream */
    long long wrap;             /* 1: elements lie `extent` apart; 0: the outermost stride goes on */
    unsigned long long program; /* what the kernel reads of its type */
@ if numbers > 0 then
    unsigned long long number[@(numbers)];
@ end
};

/* Words, each moved by one load and one store. */
template <int WIDTH> struct stridec_word;
struct alignas(16) stridec_16_bytes {
    unsigned int x, y, z, w;
};
template <> struct stridec_word<16> {
    typedef stridec_16_bytes type;
};
template <> struct stridec_word<8> {
    typedef unsigned long long type;
};
template <> struct stridec_word<4> {
    typedef unsigned int type;
};
template <> struct stridec_word<2> {
    typedef unsigned short type;
};
template <> struct stridec_word<1> {
    typedef unsigned char type;
};
