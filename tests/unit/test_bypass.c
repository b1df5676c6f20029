/* test_bypass.c: how messages find out whether they go better past the caches. */
#include "../../runtime/protocol/nontemporal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { BYTES = 65536, MESSAGES = 2000 };

/* So many messages, which take that long by each way; returns those that went past the caches. */
static int send(struct nontemporal *b, int messages, const int64_t ns[2])
{
    int past = 0;
    for (int i = 0; i < messages; i++) {
        struct nontemporal_turn t = nontemporal_next(b);
        past += t.past;
        if (t.timed) nontemporal_learn(t, ns[t.past], BYTES);
    }
    return past;
}

/* Of many messages some go the other way still, to find out. */
static void expect_few(int others)
{
    assert_in_range(others, 1, MESSAGES / 25);
}

static void test_quicker_way_stays(void **state)
{
    (void)state;
    if (!NONTEMPORAL_STORES) skip();
    const int64_t far[] = {43000, 13000}, near[] = {11000, 13000}, alike[] = {11000, 10800};
    expect_few(MESSAGES - send(nontemporal_row(1, false), MESSAGES, far));
    expect_few(MESSAGES - send(nontemporal_row(2, true), MESSAGES, far));
    expect_few(send(nontemporal_row(3, false), MESSAGES, near));
    expect_few(send(nontemporal_row(4, true), MESSAGES, near));
    expect_few(send(nontemporal_row(5, false), MESSAGES, alike));
    expect_few(MESSAGES - send(nontemporal_row(6, true), MESSAGES, alike));
}

static void test_it_changes(void **state)
{
    (void)state;
    if (!NONTEMPORAL_STORES) skip();
    const int64_t far[] = {43000, 13000}, near[] = {11000, 13000}, nearer[] = {3000, 13000};
    struct nontemporal *b = nontemporal_row(7, false);
    for (int i = 0; i < 4; i++) {
        send(b, MESSAGES, near);
        expect_few(MESSAGES - send(b, MESSAGES, far));   /* where the way that stays shows it, at once; */
        send(b, 300, nearer);                            /* else at the next trial */
        expect_few(send(b, MESSAGES, nearer));
    }
}

/* One message that takes ten times as long, as its process lost its core, changes little. */
static void test_noise(void **state)
{
    (void)state;
    if (!NONTEMPORAL_STORES) skip();
    int past = 0;
    struct nontemporal *b = nontemporal_row(8, false);
    for (int i = 0; i < MESSAGES; i++) {
        struct nontemporal_turn t = nontemporal_next(b);
        past += t.past;
        if (t.timed) nontemporal_learn(t, (t.past ? 13000 : 11000) * (i % 10 == 3 ? 10 : 1), BYTES);
    }
    assert_in_range(past, 1, MESSAGES / 10);
}

static void test_what_tells_nothing(void **state)
{
    (void)state;
    struct nontemporal *b = nontemporal_row(9, false);
    const int64_t ns[] = {11000, 0};
    assert_ptr_equal(b, nontemporal_row(9, true));
    assert_false(nontemporal_stays(b));
    send(b, MESSAGES, ns);
    nontemporal_learn((struct nontemporal_turn){b, true, true}, 5, 0);
    assert_false(nontemporal_stays(b));
}

static void test_another_key(void **state)
{
    (void)state;
    const int64_t far[] = {43000, 13000};
    struct nontemporal *b = nontemporal_row(10, false);
    send(b, MESSAGES, far);
    for (uint64_t key = 11; key < 100000; key++) {
        if (nontemporal_row(key, false) != b) continue;
        assert_false(nontemporal_stays(b));
        return;
    }
    fail_msg("no other key has that row");
}

static void test_copy(void **state)
{
    (void)state;
    _Alignas(64) unsigned char to[1024], from[1024];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 7 + 1);
    for (size_t at = 0; at <= 64; at += 16)
        for (size_t n = 0; n <= 300; n++) {
            memset(to, 0, sizeof to);
            nontemporal_copy(to + at, from + n % 13, n);
            nontemporal_end();
            assert_memory_equal(to + at, from + n % 13, n);
            for (size_t i = 0; i < sizeof to; i++) assert_true((i >= at && i < at + n) || !to[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quicker_way_stays), cmocka_unit_test(test_it_changes), cmocka_unit_test(test_noise),
        cmocka_unit_test(test_what_tells_nothing), cmocka_unit_test(test_another_key), cmocka_unit_test(test_copy),
    };
    return cmocka_run_group_tests_name("bypass", tests, NULL, NULL);
}
