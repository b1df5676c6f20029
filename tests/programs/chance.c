/* chance.c: random numbers that are the same on all ranks, and the content of messages. */
#include "programs.h"

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

struct chance chance_of(uint64_t seed, uint64_t number)
{
    return (struct chance){mix(mix(seed + 0x9e3779b97f4a7c15u) + number * 0xd6e8feb86659fd93u)};
}

int draw(struct chance *c, int n)
{
    c->state += 0x9e3779b97f4a7c15u;
    return n > 1 ? (int)(mix(c->state) % (uint64_t)n) : 0;
}

int draw_in(struct chance *c, int low, int high)
{
    return low + draw(c, high - low + 1);
}

bool once_in(struct chance *c, int n)
{
    return draw(c, n) == 0;
}

int draw_divisor(struct chance *c, int n)
{
    for (int i = 0; i < 6; i++) {
        int d = draw_in(c, 1, n < 16 ? n : 16);
        if (d > 0 && n % d == 0) return once_in(c, 3) ? n / d : d;
    }
    return 1;
}

unsigned char stream_at(uint64_t salt, int64_t i)
{
    uint64_t z = (salt + 1) * 0x9e3779b97f4a7c15u + (uint64_t)i * 0xd6e8feb86659fd93u;
    z = (z ^ z >> 32) * 0xd6e8feb86659fd93u;
    return (unsigned char)(z >> 40);
}
