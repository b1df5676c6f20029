/* image.h: the simulated cubin, made by nvrtc.c and loaded by module.c: a host shared object, marked in the
 * padding of its ELF identification (zeroed again before it is loaded), with a trailer behind its last byte. */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define IMAGE_MARK "SIMGPU1"   /* EI_PAD leaves 7 bytes */
enum { IMAGE_MARK_AT = EI_PAD, IMAGE_MARK_BYTES = EI_NIDENT - EI_PAD };

struct image_trailer {
    char mark[8];
    uint32_t arch, zero;   /* 90 for sm_90 */
    uint64_t hash;         /* of the bytes before it, mark included */
};

static inline uint64_t image_hash(const unsigned char *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Length of a shared object as linkers write it: the section headers come last. */
static inline size_t image_elf_bytes(const void *elf)
{
    Elf64_Ehdr head;
    memcpy(&head, elf, sizeof head);
    return head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
}

#endif
