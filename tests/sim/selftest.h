/* selftest.h: shared by the files of the simulator's own test. */
#ifndef SELFTEST_H
#define SELFTEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cuda.h>
#include <stdbool.h>

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

extern bool eager;
extern const char *program;   /* argv[0] */
/* Makes device 0's primary context current. */
CUcontext start(void);

/* selftest_process.c. run_scenario runs this program again for one scenario: its wait status, and the start
 * of what it wrote to standard error; `scenario` is the other side. */
int scenario(const char *name);
int run_scenario(const char *name, const void *input, size_t bytes, char *text, size_t text_bytes);
void test_host_access_dies(void **state);
void test_ipc(void **state);
void test_ipc_of_a_place_used_again(void **state);
void test_ipc_contexts(void **state);
void test_ipc_events(void **state);
void test_fault_is_sticky(void **state);
void test_forked_child_has_no_driver(void **state);

/* selftest_order.c */
void test_work_is_deferred(void **state);
void test_events_order_streams(void **state);
void test_legacy_stream(void **state);
void test_copies_2d(void **state);

/* selftest_kernel.c */
CUmodule load_source(const char *source, CUresult expected);
void scenario_kernel(const char *source);
void test_kernel(void **state);
void test_kernel_arguments_are_copied(void **state);
void test_module_of_another_context(void **state);
void test_bad_images(void **state);
void test_compile_errors(void **state);
void test_injected_failures(void **state);
void test_kernel_faults(void **state);
extern const char overrun_source[], misaligned_source[], wild_source[];

/* selftest_block.c */
void test_barriers(void **state);
void test_barrier_faults(void **state);
extern const char divergent_source[], stuck_warp_source[], wild_after_barrier_source[],
    misaligned_after_barrier_source[];

/* selftest_graph.c */
void test_graph_launches(void **state);
void test_graph_errors(void **state);
void test_copies_3d(void **state);

/* selftest_capture.c */
void test_captured_work(void **state);
void test_capture_by_the_runtime(void **state);
void test_what_is_not_captured(void **state);

/* selftest_memop.c */
void scenario_ipc_words(const CUipcMemHandle *h);
void test_memory_operations(void **state);
void test_waits_between_streams(void **state);
void test_host_functions(void **state);
void test_waits_keep_order(void **state);
void test_waits_hold(void **state);
void test_waits_between_processes(void **state);
void test_memory_operations_refused(void **state);
#endif
