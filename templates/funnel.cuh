/* Returns the 4 bytes that begin `shift` bits, below 32, behind the begin of the first of two neighbouring words. */
static __device__ __forceinline__ unsigned int stridec_funnel(unsigned int low, unsigned int high, int shift)
{
    return (unsigned int)(((unsigned long long)high << 32 | low) >> shift);
}
